#include "trainer/parallel/sharded_adamw.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "trainer/parallel/wire.h"
#include "trainer/torch_edge.h"

namespace ingot::trainer {
namespace {

std::map<std::string, at::Tensor> OwnedOf(const std::map<std::string, at::Tensor>& parameters, const Ranks* ranks) {
  if (ranks == nullptr) return parameters;
  std::vector<int64_t> sizes;
  for (const auto& [name, parameter] : parameters) sizes.push_back(parameter.numel());
  const std::vector<int> owners = OwnersOf(sizes, ranks->size());
  std::map<std::string, at::Tensor> owned;
  size_t i = 0;
  for (const auto& [name, parameter] : parameters) {
    if (owners[i++] == ranks->rank()) owned[name] = parameter;
  }
  return owned;
}

int64_t EntriesOf(const at::Tensor& parameter) {
  constexpr int64_t kEntryWords = weights::ChangeMask::kEntryWords;
  return (parameter.numel() + kEntryWords - 1) / kEntryWords;
}

}  // namespace

std::vector<int> OwnersOf(const std::vector<int64_t>& sizes, int ranks) {
  std::vector<size_t> order(sizes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return sizes[a] > sizes[b]; });
  std::vector<int> owners(sizes.size(), 0);
  std::vector<int64_t> held(static_cast<size_t>(ranks), 0);
  for (const size_t i : order) {
    const auto least = std::min_element(held.begin(), held.end());
    owners[i] = static_cast<int>(least - held.begin());
    *least += sizes[i];
  }
  return owners;
}

ShardedAdamW::ShardedAdamW(const OptimizerOptions& options, const std::map<std::string, at::Tensor>& parameters,
                           Ranks* ranks, bool publishes)
    : ranks_(ranks), publishes_(publishes), owned_(OwnedOf(parameters, ranks)), own_(options, owned_) {
  std::vector<int64_t> sizes;
  for (const auto& [name, parameter] : parameters) {
    names_.push_back(name);
    parameters_.push_back(parameter);
    sizes.push_back(parameter.numel());
  }
  if (ranks_ != nullptr) MakeBuckets(OwnersOf(sizes, ranks_->size()));
}

void ShardedAdamW::MakeBuckets(const std::vector<int>& owners) {
  for (int owner = 0; owner < ranks_->size(); ++owner) {
    Bucket bucket{owner, 0, {}};
    const auto close = [&] {
      if (!bucket.parameters.empty()) buckets_.push_back(bucket);
      bucket = {owner, 0, {}};
    };
    for (size_t i = 0; i < parameters_.size(); ++i) {
      if (owners[i] != owner) continue;
      const bool fits = bucket.elements + parameters_[i].numel() <= kBucketElements &&
                        (bucket.parameters.empty() ||
                         parameters_[bucket.parameters[0]].scalar_type() == parameters_[i].scalar_type());
      if (!fits) close();
      bucket.parameters.push_back(i);
      bucket.elements += parameters_[i].numel();
    }
    close();
  }
}

at::Tensor ShardedAdamW::FlatGradient(const Bucket& bucket) const {
  std::vector<at::Tensor> pieces;
  for (const size_t i : bucket.parameters) {
    const at::Tensor& gradient = parameters_[i].grad();
    pieces.push_back(gradient.defined() ? gradient.reshape({-1}) : at::zeros_like(parameters_[i]).reshape({-1}));
  }
  return pieces.size() == 1 ? pieces[0].contiguous() : at::cat(pieces);
}

void ShardedAdamW::Reduce(const Bucket& bucket) {
  const std::vector<at::Tensor> all = OrThrow(ranks_->Gather(FlatGradient(bucket), bucket.owner));
  if (!all.empty()) {
    const bool wide = all[0].scalar_type() == at::kDouble;
    at::Tensor sum = all[0].to(wide ? at::kDouble : at::kFloat);
    for (size_t r = 1; r < all.size(); ++r) sum.add_(all[r]);
    int64_t begin = 0;
    for (const size_t i : bucket.parameters) {
      const int64_t size = parameters_[i].numel();
      own_.AddGradient(names_[i], sum.narrow(0, begin, size).view(parameters_[i].sizes()));
      begin += size;
    }
  }
  for (const size_t i : bucket.parameters) parameters_[i].mutable_grad().reset();
}

void ShardedAdamW::EndSlot() {
  if (ranks_ == nullptr) return own_.CollectGradients();
  const at::NoGradGuard no_history;
  OrThrow(ranks_->Agree(absl::OkStatus()));
  OrThrow(ranks_->BreakUnless([&]() -> absl::Status {
    for (const Bucket& bucket : buckets_) Reduce(bucket);
    return absl::OkStatus();
  }));
}

double ShardedAdamW::GradNorm() {
  if (ranks_ == nullptr) return own_.GradNorm();
  Writer own;
  for (const double norm : own_.GradNorms()) own.Put(norm);
  OrThrow(ranks_->Agree(absl::OkStatus()));
  const std::vector<std::string> all = OrThrow(ranks_->AllGatherBytes(own.Release()));
  // In name order, as on one rank.
  std::vector<Reader> readers(all.begin(), all.end());
  std::vector<int> owners(parameters_.size(), 0);
  for (const Bucket& bucket : buckets_) {
    for (const size_t i : bucket.parameters) owners[i] = bucket.owner;
  }
  double total = 0;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const auto norm = readers[static_cast<size_t>(owners[i])].Get<double>();
    total += norm * norm;
  }
  for (const Reader& reader : readers) OrThrow(reader.status());
  return std::sqrt(total);
}

void ShardedAdamW::Publish(const Bucket& bucket) {
  if (bucket.parameters.size() == 1) {
    OrThrow(ranks_->Broadcast(parameters_[bucket.parameters[0]], bucket.owner));
    return;
  }
  std::vector<at::Tensor> pieces;
  for (const size_t i : bucket.parameters) pieces.push_back(parameters_[i].reshape({-1}));
  const at::Tensor flat = at::cat(pieces);
  OrThrow(ranks_->Broadcast(flat, bucket.owner));
  if (bucket.owner == ranks_->rank()) return;
  int64_t begin = 0;
  for (const size_t i : bucket.parameters) {
    parameters_[i].copy_(flat.narrow(0, begin, parameters_[i].numel()).view(parameters_[i].sizes()));
    begin += parameters_[i].numel();
  }
}

void ShardedAdamW::PublishChanges(const Bucket& bucket) {
  const at::Tensor& any = parameters_[bucket.parameters[0]];  // all parameters in the bucket have this type
  if (bucket.owner == 0 || !AdamW::MarksType(any)) return;
  if (!any.is_cpu()) return PublishDeviceChanges(bucket);
  int64_t entries = 0;
  for (const size_t i : bucket.parameters) entries += EntriesOf(parameters_[i]);
  const at::Tensor flat = at::full({entries}, -1, at::kLong);
  int64_t* at = flat.mutable_data_ptr<int64_t>();
  if (bucket.owner == ranks_->rank()) {
    for (const size_t i : bucket.parameters) {
      const weights::ChangeMask changes = own_.TakeChanges(names_[i]);
      std::copy(changes.entries().begin(), changes.entries().end(), at);  // none = all words count as changed
      at += EntriesOf(parameters_[i]);
    }
  }
  OrThrow(ranks_->Broadcast(flat, bucket.owner));
  if (!ranks_->leads()) return;
  for (const size_t i : bucket.parameters) {
    weights::ChangeMask& all = others_.try_emplace(names_[i], parameters_[i].numel()).first->second;
    for (uint64_t& entry : all.entries()) entry |= static_cast<uint64_t>(*at++);
    if (const int64_t rest = all.words() % weights::ChangeMask::kEntryWords; rest > 0) {
      all.entries().back() &= (uint64_t{1} << rest) - 1;
    }
  }
}

void ShardedAdamW::PublishDeviceChanges(const Bucket& bucket) {
  int64_t entries = 0;
  for (const size_t i : bucket.parameters) entries += EntriesOf(parameters_[i]);
  const at::Tensor flat = at::full({entries}, -1, parameters_[bucket.parameters[0]].options().dtype(at::kLong));
  const auto for_each = [&](auto&& body) {
    int64_t begin = 0;
    for (const size_t i : bucket.parameters) {
      body(i, flat.narrow(0, begin, EntriesOf(parameters_[i])));
      begin += EntriesOf(parameters_[i]);
    }
  };
  if (bucket.owner == ranks_->rank()) {
    std::map<std::string, kernels::MarkedTensor> marked = own_.MarkedOnDevice();
    for_each([&](size_t i, at::Tensor part) {
      const auto found = marked.find(names_[i]);
      if (found == marked.end()) return;  // all words count as changed
      part.copy_(found->second.marks);
      found->second.marks.zero_();
    });
  }
  OrThrow(ranks_->Broadcast(flat, bucket.owner));
  if (!ranks_->leads()) return;
  for_each([&](size_t i, const at::Tensor& part) {
    if (!parameters_[i].is_contiguous()) return;  // its version is a copy
    kernels::MarkedTensor& all = others_on_device_[names_[i]];
    if (all.marks.defined()) {
      all.marks.bitwise_or_(part);
    } else {
      all = {parameters_[i].detach(), part.clone()};
    }
  });
}

std::map<std::string, RoundedParameter> ShardedAdamW::TakeRounded(bool gathers) {
  if (parameters_.empty() || !parameters_[0].is_cpu()) {
    std::map<std::string, kernels::MarkedTensor> marked = own_.MarkedOnDevice();
    marked.insert(others_on_device_.begin(), others_on_device_.end());
    std::map<std::string, RoundedParameter> all;
    if (gathers) {
      all = TakeMarked(marked);
    } else {
      own_.ClearMarksOnDevice();
    }
    others_on_device_.clear();
    return all;
  }
  std::map<std::string, RoundedParameter> all = own_.TakeRounded();
  for (auto& [name, changes] : std::exchange(others_, {})) all[name].changes = std::move(changes);
  return all;
}

std::map<std::string, RoundedParameter> ShardedAdamW::TakeValues(bool gathers) {
  if (gathers) return own_.TakeValues();
  for (const std::string& name : names_) {
    if (owned_.contains(name)) own_.TakeChanges(name);
  }
  own_.ClearMarksOnDevice();
  return {};
}

bool ShardedAdamW::MarksAll() const { return std::all_of(parameters_.begin(), parameters_.end(), AdamW::MarksType); }

void ShardedAdamW::Step(double learning_rate, double grad_norm) {
  Change([&] { own_.Step(learning_rate, grad_norm); });
}

void ShardedAdamW::Propose(double learning_rate, double grad_norm) {
  Change([&] { own_.Propose(learning_rate, grad_norm); });
}

void ShardedAdamW::Halve() {
  Change([&] { own_.Halve(); });
}

void ShardedAdamW::TakeBack() {
  Change([&] { own_.TakeBack(); });
}

void ShardedAdamW::Change(const std::function<void()>& change) {
  if (ranks_ == nullptr) return change();
  const at::NoGradGuard no_history;
  OrThrow(ranks_->Agree(absl::OkStatus()));
  OrThrow(ranks_->BreakUnless([&]() -> absl::Status {  // the ranks' weights now differ until all are published
    change();
    if (!publishes_) return absl::OkStatus();
    for (const Bucket& bucket : buckets_) {
      Publish(bucket);
      if (sends_changes_) PublishChanges(bucket);
    }
    return absl::OkStatus();
  }));
}

void ShardedAdamW::ZeroGrad() {
  own_.ZeroGrad();
  for (at::Tensor& parameter : parameters_) parameter.mutable_grad().reset();
}

std::map<std::string, at::Tensor> ShardedAdamW::Gradients() const {
  std::map<std::string, at::Tensor> gradients = own_.Gradients();
  for (const std::string& name : names_) gradients.try_emplace(name);
  return gradients;
}

}  // namespace ingot::trainer
