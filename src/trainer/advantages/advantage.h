// Computes credit and weights for the policy loss: an advantage per turn from a group's rewards, and a weight per
// sampled token from a batch's calls. Pure functions that do not use torch.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ingot::trainer {

// The contribution of one reward term to an episode's return, before the term's weight is applied.
struct TermReturn {
  double weight = 1;            // the same in all episodes in a group
  double value = 0;             // for the whole episode, including its calls
  std::vector<double> credits;  // one per turn
};

// An episode's return. `outcome` is earned at the end and `turns[t]` at turn t. Turns are calls in arrival order.
//
//   return        R = outcome + sum of turns
//
//   outcome       every turn has R
//   reward_to_go  turn t has outcome + sum of turns[t ..]
//
// With a discount d below 1 (reward_to_go only), a reward's weight is d^k for the turn k turns before it was earned.
// The outcome is earned at the last turn:
//
//   turn t has sum over u >= t of d^(u - t) * earned_u,   R is the sum at the first turn
struct EpisodeReturn {
  double value = 0;             // R
  std::vector<double> credits;  // one per turn
  int64_t tokens = 0;           // number of sampled tokens, for baseline `length`
  // Read only by normalization `terms`. All episodes in a group have the same terms in the same order.
  std::vector<TermReturn> terms = {};
};

// REQUIRES: `credit` is "outcome" or "reward_to_go"; `discount` is in [0, 1], and 1 with "outcome".
EpisodeReturn CreditTurns(double outcome, const std::vector<double>& turns, const std::string& credit,
                          double discount = 1);

struct AdvantageRule {
  std::string baseline = "mean";
  std::string normalization = "none";
  bool filter_zero_variance = false;
  std::string branches = "nested";  // for groups that branch (branch_advantage.h)
  bool by_role = false;             // compare each role in an episode separately (role_advantage.h)
};

struct GroupAdvantages {
  bool equal = false;     // several samples, all with the same R; under `terms`, the same R_k for every term k
  bool filtered = false;  // the group has no nonzero advantage, and the rule filters such groups
  std::vector<std::vector<double>> turns;  // [sample][turn]
};

// Returns a batch's advantages in the same shape, [group][sample]. A_it = (credit_it - B_i) / D. The baseline B_i is
// the same for every turn t.
//
//   baseline       mean:           B_i = mean of the group's R
//                  leave_one_out:  B_i = mean of the others' R; a group of one has baseline 0
//                  batch:          B_i = mean of all R in the batch
//                  length:         B_i = sum_j tokens_j R_j / sum_j tokens_j over the group: OPO's minimum-variance
//                                  baseline (arXiv 2505.23585; verl's `opo`). If there are no tokens, the mean.
//                  none:           B_i = 0
//   normalization  none:           D = 1
//                  group:          D = population standard deviation of the group's R + 1e-6
//                  batch:          D = population standard deviation of all R_i - B_i in the batch + 1e-6
//                  mean:           D = mean of the group's R: MaxRL (arXiv 2602.02710; prime-rl's `max_rl`), for
//                                  non-negative rewards. If it is not above 0, all advantages of the group are 0.
//                  terms:          GDPO (arXiv 2601.05242): compares each term k separately within the group
//
//     S_it = sum over k of weight_k * (credit_kit - B_ki) / D_k      B_ki, D_k: baseline and `group` deviation of R_k
//     A_it = S_it / D                                                D: deviation of all S_i in the batch + 1e-6
//
//     S_i uses R_k instead of the credit. Valid only with baselines mean, leave_one_out, and length. A sum whose parts
//     cancel up to rounding is 0.
//
// Equal outcomes carry no learning signal. If all R that enter a mean are equal (tree::SameReturn), B_i is exactly R_i,
// and a D that is a deviation is 1.
//
// A group is filtered if the rule filters groups and all of the group's advantages are exactly 0. Filtered groups are
// excluded from the batch's deviations. REQUIRES: options are validated, and rewards are finite.
std::vector<GroupAdvantages> Advantages(const std::vector<std::vector<EpisodeReturn>>& groups,
                                        const AdvantageRule& rule);

// A call's episode and group in the batch, and its number of loss tokens.
struct CallExtent {
  int32_t episode = 0;
  int32_t group = 0;
  int64_t loss_tokens = 0;
};

// Returns the weight of each loss token, per call. Weights sum to 1 over the unmerged batch, except under `constant`.
//
//   token     1 / T                  T: loss tokens in the batch
//   sequence  1 / (E * T_episode)    mean over an episode's tokens, then over the E episodes that have any
//   prompt    1 / (G * T_group)      mean over a group's tokens, then over the G groups that have any
//   constant  1 / (E * constant)     sum over an episode's tokens divided by a constant, then the mean over episodes
std::vector<double> TokenWeights(std::span<const CallExtent> calls, const std::string& aggregation,
                                 int64_t constant = 0);

}  // namespace ingot::trainer
