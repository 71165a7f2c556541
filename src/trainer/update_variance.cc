#include "trainer/update_variance.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <cstddef>
#include <set>
#include <utility>

#include "base/rng.h"

namespace ingot::trainer {
namespace {

// Returns the sampled elements of a tensor, which are the same in every step.
at::Tensor Chosen(const at::Tensor& gradient) {
  // The stride is odd: row widths are usually even, so an even stride would select the same columns of every row.
  const int64_t stride = (gradient.numel() / UpdateVariance::kElements) | 1;
  return gradient.reshape({-1}).slice(0, 0, gradient.numel(), stride).clone();
}

}  // namespace

UpdateVariance::UpdateVariance(const PreparedBatch& batch, uint64_t seed, int64_t version) {
  std::set<int32_t> groups;
  for (const tree::CallPath& call : batch.calls) groups.insert(call.group);
  batch_groups_ = static_cast<double>(groups.size());
  if (groups.size() < 2) return;
  std::vector<int32_t> left(groups.begin(), groups.end());
  const uint64_t stream = base::DeriveSeed(seed, static_cast<uint64_t>(version));
  for (uint64_t draw = 0; groups_.size() < kGroups && !left.empty(); ++draw) {
    const auto at = static_cast<size_t>(base::UniformAt(stream, draw) * static_cast<double>(left.size()));
    groups_.push_back(left[at]);
    left.erase(left.begin() + static_cast<std::ptrdiff_t>(at));
  }
}

void UpdateVariance::AddGroup(const std::map<std::string, at::Tensor>& gradients) {
  const at::NoGradGuard no_history;
  std::map<std::string, at::Tensor>& kept = sampled_.emplace_back();
  for (const auto& [name, gradient] : gradients) {
    if (gradient.defined()) kept.emplace(name, Chosen(gradient));
  }
}

UpdateSpread UpdateVariance::Compare(const std::map<std::string, at::Tensor>& gradients) const {
  const at::NoGradGuard no_history;
  UpdateSpread spread{.groups = static_cast<int64_t>(groups_.size())};
  for (const auto& [name, gradient] : gradients) {
    if (!gradient.defined()) continue;
    const at::Tensor whole = Chosen(gradient).to(at::kDouble);
    // Skipped elements are assumed to be like their neighbors.
    const double weight = static_cast<double>(gradient.numel()) / static_cast<double>(whole.numel());
    spread.length += weight * whole.square().sum().item<double>();
    for (const auto& group : sampled_) {
      const auto found = group.find(name);
      const at::Tensor apart =
          found == group.end() ? whole : found->second.to(at::kDouble).mul_(batch_groups_).sub_(whole);
      spread.apart += weight * apart.square().sum().item<double>() / static_cast<double>(sampled_.size());
    }
  }
  return spread;
}

}  // namespace ingot::trainer
