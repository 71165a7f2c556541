#include "trainer/pass/expert_record.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <numeric>

namespace ingot::trainer {

std::vector<float> CallsThrough(const tree::PackedForest& forest) {
  // A row is on a call's path if the path's last row sees it.
  std::vector<int32_t> before(forest.size() + 1, 0);  // number of paths that end in earlier rows
  for (const int32_t row : forest.call_ends) ++before[static_cast<size_t>(row) + 1];
  std::partial_sum(before.begin(), before.end(), before.begin());
  std::vector<float> through(forest.size());
  for (size_t row = 0; row < through.size(); ++row) {
    through[row] = static_cast<float>(before[static_cast<size_t>(forest.visible_end[row])] - before[row]);
  }
  return through;
}

ExpertRecord::ExpertRecord(const tree::PackedForest& forest, int64_t layers, double balance)
    : through_(CallsThrough(forest)), balance_(balance), loads_(static_cast<size_t>(layers)) {
  total_ = std::accumulate(through_.begin(), through_.end(), 0.0);
}

model::Aux ExpertRecord::AuxOf(int32_t begin, int32_t end, at::Device device) const {
  model::Aux aux;
  const auto first = through_.begin() + begin, last = through_.begin() + end;
  aux.weights = at::tensor(std::vector<float>(first, last), at::kFloat).to(device);
  const double own = std::accumulate(first, last, 0.0);
  if (own > 0) aux.balance = balance_ * own / total_;
  return aux;
}

void ExpertRecord::Add(int64_t layer, const model::Aux& aux) {
  if (!aux.load.defined()) return;
  at::Tensor& load = loads_[static_cast<size_t>(layer)];
  load = load.defined() ? load + aux.load : aux.load;
  entropy_ += aux.entropy;
  rows_ += aux.weights.sum().item<double>();
  if (aux.balance_loss.defined()) balance_loss_ += aux.balance_loss.item<double>();
  compared_ += aux.compared;
  differing_ += aux.differing;
}

ExpertLoads ExpertRecord::Loads() const {
  ExpertLoads loads;
  for (size_t layer = 0; layer < loads_.size(); ++layer) {
    if (!loads_[layer].defined()) continue;
    const at::Tensor relative = loads_[layer] / loads_[layer].mean();
    const double* first = relative.const_data_ptr<double>();
    loads.emplace_back(static_cast<int64_t>(layer), std::vector<double>(first, first + relative.numel()));
  }
  return loads;
}

void ExpertRecord::Put(Writer& writer) const {
  for (const at::Tensor& load : loads_) {
    const int64_t experts = load.defined() ? load.numel() : 0;
    writer.Put(experts);
    for (int64_t e = 0; e < experts; ++e) writer.Put(load.const_data_ptr<double>()[e]);
  }
  writer.Put(entropy_).Put(rows_).Put(balance_loss_).Put(compared_).Put(differing_);
}

void ExpertRecord::AddFrom(Reader& reader) {
  for (at::Tensor& load : loads_) {
    const auto experts = reader.Get<int64_t>();
    if (experts == 0) continue;
    if (!load.defined()) load = at::zeros({experts}, at::kDouble);
    for (int64_t e = 0; e < experts; ++e) load.mutable_data_ptr<double>()[e] += reader.Get<double>();
  }
  entropy_ += reader.Get<double>();
  rows_ += reader.Get<double>();
  balance_loss_ += reader.Get<double>();
  compared_ += reader.Get<int64_t>();
  differing_ += reader.Get<int64_t>();
}

void ExpertRecord::Reset() {
  loads_.assign(loads_.size(), at::Tensor());
  entropy_ = rows_ = balance_loss_ = 0;
  compared_ = differing_ = 0;
}

void ExpertRecord::Report(StepMetrics& metrics) const {
  double most = 0, least = 1;
  const auto loads = Loads();
  if (loads.empty()) return;
  for (const auto& [layer, relative] : loads) {
    most = std::max(most, *std::max_element(relative.begin(), relative.end()));
    least = std::min(least, *std::min_element(relative.begin(), relative.end()));
  }
  metrics["experts/load_max"] = most;
  metrics["experts/load_min"] = least;
  metrics["experts/router_entropy"] = entropy_ / std::max(rows_, 1.0);
  if (balance_ > 0) metrics["experts/balance_loss"] = balance_loss_;
  if (compared_ == 0) return;
  metrics["mismatch/routes_differ"] = static_cast<double>(differing_) / static_cast<double>(compared_);
  metrics["mismatch/routes_compared"] = static_cast<double>(compared_);
}

void UpdateRouterBiases(const model::Transformer& model, const ExpertRecord& record, double rate) {
  const at::NoGradGuard no_history;
  for (int64_t i = 0; i < model.config().num_hidden_layers; ++i) {
    const at::Tensor& load = record.load(i);
    if (!load.defined()) continue;
    for (const model::TensorSpec& tensor : model.layer(i).tensors) {
      if (tensor.part != model::Part::kCorrectionBias) continue;
      at::Tensor bias = model.parameters().at(tensor.name);
      bias.add_(at::sign(load.mean() - load).to(bias.options()) * rate);
    }
  }
}

}  // namespace ingot::trainer
