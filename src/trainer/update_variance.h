// Measures the variance of a step's update: the distance of individual groups' gradients from the batch's gradient.
//
//   mean over groups of |g_i - g|^2 / |g|^2      g: batch gradient; g_i: group's share of g, times the group count
//
// The groups' shares add up to g, so g is the mean of the g_i. A step that averages n such groups has a relative error
// of this value / n. More groups per step or less noise in the rewards reduce it.
//
// Groups and elements are sampled: kGroups of the batch's groups, and about kElements evenly spaced elements of each
// tensor. Each group's gradient needs a backward pass before the batch's own. It leaves .grad empty, so the step's
// result is bit-identical. A term that does not belong to a group, such as expert balancing, is only in g.
//
//   UpdateVariance variance(batch, seed, version);
//   for each of variance.groups(): the gradient of its calls;  variance.AddGroup(gradients)
//   the batch's gradient;                                    variance.Compare(gradients) -> spread, summed over ranks
//
// Each rank processes the gradients of the parameters that it owns. One object per step. Used by one thread.
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

  // The sample depends only on the batch, the seed, and the version.
  UpdateVariance(const PreparedBatch& batch, uint64_t seed, int64_t version);

  // Returns the sampled groups, numbered as in CallPath::group. Empty if the batch has fewer than two.
  const std::vector<int32_t>& groups() const { return groups_; }

  // Adds the gradient of the batch's loss over the next group's calls, by parameter name. Undefined = not on this rank.
  void AddGroup(const std::map<std::string, at::Tensor>& gradients);
  // REQUIRES: AddGroup was called for each group.
  UpdateSpread Compare(const std::map<std::string, at::Tensor>& gradients) const;

 private:
  double batch_groups_ = 0;
  std::vector<int32_t> groups_;
  std::vector<std::map<std::string, at::Tensor>> sampled_;  // per group: the sampled elements
};

}  // namespace ingot::trainer
