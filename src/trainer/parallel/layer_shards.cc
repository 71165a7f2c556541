#include "trainer/parallel/layer_shards.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "base/clock.h"
#include "model/layer_spec.h"
#include "trainer/parallel/sharded_adamw.h"
#include "trainer/parameter_memory.h"
#include "trainer/torch_edge.h"

namespace ingot::trainer {
bool IsHere(const at::Tensor& parameter) { return parameter.numel() == 0 || parameter.storage().nbytes() > 0; }

std::vector<int> OwnersOf(const model::ModelSpec& spec, int ranks) {
  const auto table = spec.Tensors();
  std::vector<int64_t> trained, frozen;
  for (const auto& [name, tensor] : table) (tensor->trained ? trained : frozen).push_back(tensor->elements());
  const std::vector<int> of_trained = OwnersOf(trained, ranks), of_frozen = OwnersOf(frozen, ranks);
  std::vector<int> owners;
  auto next_trained = of_trained.begin(), next_frozen = of_frozen.begin();
  for (const auto& [name, tensor] : table) owners.push_back(tensor->trained ? *next_trained++ : *next_frozen++);
  return owners;
}

LayerShards::LayerShards(const model::ModelConfig& config, const std::map<std::string, at::Tensor>& parameters,
                         Ranks& ranks)
    : ranks_(ranks) {
  const model::ModelSpec spec = model::SpecOf(config);
  const std::vector<int> owners = OwnersOf(spec, ranks.size());
  auto owner = owners.begin();
  for (const auto& [name, tensor] : spec.Tensors()) {
    const int own = *owner++;
    // A router's bias has no owner. Every rank holds it and changes it in the same way.
    if (tensor->part == model::Part::kCorrectionBias) continue;
    names_.push_back(name);
    parameters_.push_back(parameters.at(name));
    owners_.push_back(own);
  }
  for (const std::vector<std::string>& unit : spec.Units()) {
    std::vector<size_t>& indices = units_.emplace_back();
    for (const std::string& name : unit) {
      if (!Divides(name)) continue;
      indices.push_back(static_cast<size_t>(std::lower_bound(names_.begin(), names_.end(), name) - names_.begin()));
    }
  }
  ranks_.ServeWith([this](const std::vector<int64_t>& wanted) { return Serve(wanted); });
}

LayerShards::~LayerShards() { ranks_.ServeWith(nullptr); }

void LayerShards::Divide() {
  divided_ = true;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (!Owns(i)) Drop(parameters_[i]);
  }
}

std::map<std::string, at::Tensor> LayerShards::Owned() const {
  std::map<std::string, at::Tensor> owned;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (Owns(i)) owned[names_[i]] = parameters_[i];
  }
  return owned;
}

bool LayerShards::Divides(const std::string& name) const {
  return std::binary_search(names_.begin(), names_.end(), name);
}

void LayerShards::Release() {
  if (here_ < 0) return;
  for (const size_t i : units_[static_cast<size_t>(here_)]) {
    if (!Owns(i)) Drop(parameters_[i]);
  }
  here_ = -1;
}

void LayerShards::Need(int64_t unit) {
  if (!divided_ || here_ == unit) return;
  Release();
  const std::vector<size_t>& parameters = units_[static_cast<size_t>(unit)];
  if (std::all_of(parameters.begin(), parameters.end(), [&](size_t i) { return Owns(i); })) return;
  const base::Clock& clock = base::Clock::Real();
  const std::chrono::nanoseconds start = clock.Now();
  if (const absl::Status status = ranks_.Want(unit); !status.ok()) throw StatusError(status);
  seconds_ += std::chrono::duration<double>(clock.Now() - start).count();
}

at::Tensor LayerShards::Buffer(size_t i) const {
  return at::empty(parameters_[i].sizes(), parameters_[i].options().requires_grad(false));
}

absl::Status LayerShards::Serve(const std::vector<int64_t>& wanted) {
  const at::NoGradGuard no_history;
  std::set<int64_t> units(wanted.begin(), wanted.end());
  units.erase(Ranks::kNothing);
  const int64_t own = wanted[static_cast<size_t>(ranks_.rank())];
  for (const int64_t unit : units) {
    if (unit == own) here_ = unit;
    for (const size_t i : units_[static_cast<size_t>(unit)]) {
      if (unit == own && !Owns(i)) Allocate(parameters_[i]);
      const bool stays = unit == own || Owns(i);
      INGOT_RETURN_IF_ERROR(ranks_.Broadcast(stays ? parameters_[i] : Buffer(i), owners_[i]));
    }
  }
  return absl::OkStatus();
}

absl::Status LayerShards::Unite() {
  const at::NoGradGuard no_history;
  Release();
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (!Owns(i)) Allocate(parameters_[i]);
    INGOT_RETURN_IF_ERROR(ranks_.Broadcast(parameters_[i], owners_[i]));
  }
  divided_ = false;
  return absl::OkStatus();
}

absl::StatusOr<std::map<std::string, at::Tensor>> LayerShards::Gather() {
  const at::NoGradGuard no_history;
  std::map<std::string, at::Tensor> all;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const at::Tensor tensor = Owns(i) ? parameters_[i] : Buffer(i);
    INGOT_RETURN_IF_ERROR(ranks_.Broadcast(tensor, owners_[i]));
    if (ranks_.leads()) all[names_[i]] = tensor;
  }
  return all;
}

}  // namespace ingot::trainer
