// The variance of a step's update: how far the gradients of single groups lie from the batch's.
//
//   mean over groups of |g_i - g|^2 / |g|^2      g: the batch's gradient, g_i: the group's share of it times the groups
//
// The groups' shares add up to g, and so g is the mean of the g_i. A step that averages n such groups has a relative
// error of this value / n; more groups in a step, or less noise in their rewards, lower it.
//
// Groups and elements are samples: kGroups of the batch's groups, and of each tensor about kElements elements, evenly
// spread. A group's gradient needs a backward pass, before the batch's own. Nothing of it stays in .grad, and the
// step's bits do not change. A term that no group owns, such as the balance of experts, is only in g.
//
//   UpdateVariance variance(batch, seed, version);
//   for each of variance.groups(): the gradient of its calls;  variance.AddGroup(gradients)
//   the batch's gradient;                                      variance.Compare(gradients) -> spread, added up over ranks
//
// Each rank sees the gradients of the parameters that it owns. One object per step; one thread.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "trainer/batch.h"
#include "trainer/update_spread.h"

namespace ingot::trainer {

class UpdateVariance {
 public:
  static constexpr size_t kGroups = 4;
  static constexpr int64_t kElements = int64_t{1} << 14;

  // The sample depends only on the batch, the seed and the version.
  UpdateVariance(const PreparedBatch& batch, uint64_t seed, int64_t version);

  // The sampled groups, as CallPath::group numbers them; none if the batch has fewer than two.
  const std::vector<int32_t>& groups() const { return groups_; }

  // The gradient of the next group's calls in the batch's loss, by the name of every parameter; undefined = none here.
  void AddGroup(const std::map<std::string, at::Tensor>& gradients);
  // REQUIRES: AddGroup was called for each group.
  UpdateSpread Compare(const std::map<std::string, at::Tensor>& gradients) const;

 private:
  double batch_groups_ = 0;
  std::vector<int32_t> groups_;
  std::vector<std::map<std::string, at::Tensor>> sampled_;  // per group, the chosen elements
};

}  // namespace ingot::trainer
