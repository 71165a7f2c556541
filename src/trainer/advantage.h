// What each turn of an episode is credited with, from the rewards of its group, and what each sampled token weighs in
// the loss. Pure functions; no torch.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ingot::trainer {

// What an episode earned: `outcome` at its end, `turns[t]` at turn t (its calls in order of arrival).
//
//   return        R = outcome + sum of turns
//   outcome       every turn is credited with R
//   reward_to_go  turn t with outcome + sum of turns[t ..]
//
struct EpisodeReturn {
  double value = 0;             // R
  std::vector<double> credits;  // one per turn
};

// REQUIRES: `credit` is one of the two.
EpisodeReturn Earned(double outcome, const std::vector<double>& turns, const std::string& credit);

struct AdvantageRule {
  std::string baseline = "mean";
  std::string normalization = "none";
  bool filter_zero_variance = false;
};

struct GroupAdvantages {
  bool equal = false;                      // several samples, all R the same
  bool filtered = false;                   // carries no signal, and was asked to be left out
  std::vector<std::vector<double>> turns;  // [sample][turn]
};

// Advantages of a batch, [group][sample], the same shape. A_it = (credit_it - B_i) / D, with the baseline constant in
// t:
//
//   baseline       mean:           B_i = mean of the group's R
//                  leave_one_out:  B_i = mean of the others' R; a group of one has baseline 0
//                  batch:          B_i = mean of all R of the batch
//                  none:           B_i = 0
//   normalization  none:           D = 1
//                  group:          D = population standard deviation of the group's R + 1e-6
//                  batch:          D = that of all R_i - B_i of the batch (about their mean) + 1e-6
//
// Where all R that a mean is taken of are the same (tree::SameReturn), B_i is R_i exactly and D is 1: equal outcomes
// carry no signal. A group all of whose advantages are exactly 0 is filtered if the rule says so, and then counts in no
// deviation of the batch. REQUIRES: options validated, rewards finite.
std::vector<GroupAdvantages> Advantages(const std::vector<std::vector<EpisodeReturn>>& groups,
                                        const AdvantageRule& rule);

// Where a call stands in the batch, and how many of its tokens bear loss.
struct CallExtent {
  int32_t episode = 0;
  int32_t group = 0;
  int64_t loss_tokens = 0;
};

// Per call, the weight of each of its loss tokens. But for `constant` the weights sum to 1 over the whole unmerged
// batch.
//
//   token     1 / T                  T: loss tokens of the batch
//   sequence  1 / (E * T_episode)    mean over an episode's tokens, then over the E episodes that have any
//   prompt    1 / (G * T_group)      mean over a group's tokens, then over the G groups that have any
//   constant  1 / (E * constant)     sum over an episode's tokens over a fixed number, then the mean over episodes
std::vector<double> TokenWeights(std::span<const CallExtent> calls, const std::string& aggregation,
                                 int64_t constant = 0);

}  // namespace ingot::trainer
