#include "trainer/expert_record.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <numeric>

namespace ingot::trainer {

std::vector<float> CallsThrough(const tree::PackedForest& forest) {
  // A row is on a call's path if the path's last row is among the rows that see it.
  std::vector<int32_t> before(forest.size() + 1, 0);  // path ends in rows below
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
}

void ExpertRecord::Report(StepMetrics& metrics) const {
  double most = 0, least = 1;
  bool any = false;
  for (const at::Tensor& load : loads_) {
    if (!load.defined()) continue;
    const at::Tensor relative = load / load.mean();
    most = std::max(most, relative.max().item<double>());
    least = std::min(least, relative.min().item<double>());
    any = true;
  }
  if (!any) return;
  metrics["experts/load_max"] = most;
  metrics["experts/load_min"] = least;
  metrics["experts/router_entropy"] = entropy_ / std::max(rows_, 1.0);
  if (balance_ > 0) metrics["experts/balance_loss"] = balance_loss_;
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
