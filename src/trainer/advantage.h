// Advantages of episodes from the rewards of their groups, and what each sampled token weighs in the loss. Pure
// functions; no torch.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ingot::trainer {

// rewards[g][i] of sample i of group g -> its advantage, the same shape.
//
//   baseline       mean:           A_i = r_i - mean(r)
//                  leave_one_out:  A_i = r_i - mean of the others' r; a group of one has baseline 0
//   normalization  none | group:   divided by the population standard deviation of the group's rewards + 1e-6
//                  batch:          divided by that of all advantages of the batch (about their mean) + 1e-6
//
// A group whose rewards are all equal has advantage 0 throughout. REQUIRES: options validated, rewards finite.
std::vector<std::vector<double>> Advantages(const std::vector<std::vector<double>>& rewards,
                                            const std::string& baseline, const std::string& normalization);

// Where a call stands in the batch, and how many tokens it sampled.
struct CallExtent {
  int32_t episode = 0;
  int32_t group = 0;
  int64_t sampled_tokens = 0;
};

// Per call, the weight of each of its sampled tokens; over the whole unmerged batch the weights sum to 1.
//
//   token     1 / T                  T: loss tokens of the batch
//   sequence  1 / (E * T_episode)    mean over an episode's tokens, then over the E episodes that have any
//   prompt    1 / (G * T_group)      mean over a group's tokens, then over the G groups that have any
std::vector<double> TokenWeights(std::span<const CallExtent> calls, const std::string& aggregation);

}  // namespace ingot::trainer
