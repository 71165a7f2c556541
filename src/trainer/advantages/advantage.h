// Credit and weight of the policy loss: from the rewards of a group to an advantage per turn, and from a batch's calls
// to a weight per sampled token. Pure functions; no torch.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ingot::trainer {

// An episode's part of the return from one term of the reward, before the term's weight.
struct TermReturn {
  double weight = 1;            // the same in all episodes of a group
  double value = 0;             // of the whole episode, its calls included
  std::vector<double> credits;  // one per turn
};

// The return of an episode, from `outcome` at its end and `turns[t]` at turn t (its calls in order of arrival).
//
//   return        R = outcome + sum of turns
//
//   outcome       every turn has R
//   reward_to_go  turn t has outcome + sum of turns[t ..]
//
// With a discount d below 1 (only reward_to_go) a reward counts d^k as much k turns before it was earned. The outcome
// is earned at the last turn:
//
//   turn t has sum over u >= t of d^(u - t) * earned_u,   R is the sum at the first turn
struct EpisodeReturn {
  double value = 0;             // R
  std::vector<double> credits;  // one per turn
  int64_t tokens = 0;           // length of the episode, for baseline `length`: its sampled tokens
  // Read only by normalization `terms`: the same terms in the same order in all episodes of a group.
  std::vector<TermReturn> terms = {};
};

// REQUIRES: `credit` is "outcome" or "reward_to_go"; `discount` in [0, 1], 1 with "outcome".
EpisodeReturn CreditTurns(double outcome, const std::vector<double>& turns, const std::string& credit,
                          double discount = 1);

struct AdvantageRule {
  std::string baseline = "mean";
  std::string normalization = "none";
  bool filter_zero_variance = false;
  std::string branches = "nested";  // of groups that branch (branch_advantage.h)
  bool by_role = false;             // compare each role of an episode separately (role_advantage.h)
};

struct GroupAdvantages {
  bool equal = false;     // several samples, all with the same R; under `terms`, with the same R_k of every term k
  bool filtered = false;  // without any advantage, and the rule filters such groups
  std::vector<std::vector<double>> turns;  // [sample][turn]
};

// Advantages of a batch, [group][sample], the same shape. A_it = (credit_it - B_i) / D; the baseline B_i is the same
// for every turn t.
//
//   baseline       mean:           B_i = mean of the group's R
//                  leave_one_out:  B_i = mean of the others' R; a group of one has baseline 0
//                  batch:          B_i = mean of all R of the batch
//                  length:         B_i = sum_j tokens_j R_j / sum_j tokens_j over the group: OPO's baseline of least
//                                  variance (arXiv 2505.23585; verl's `opo`); without any tokens, the mean
//                  none:           B_i = 0
//   normalization  none:           D = 1
//                  group:          D = population standard deviation of the group's R + 1e-6
//                  batch:          D = the same for all R_i - B_i of the batch (about their mean) + 1e-6
//                  mean:           D = mean of the group's R: MaxRL (arXiv 2602.02710; prime-rl's `max_rl`), for rewards
//                                  that are not negative. If it is not above 0, all advantages of the group are 0.
//                  terms:          GDPO (arXiv 2601.05242): each term k is compared separately within the group,
//
//     S_it = sum over k of weight_k * (credit_kit - B_ki) / D_k      B_ki, D_k: baseline and `group` deviation of R_k
//     A_it = S_it / D                                                D: deviation of all S_i of the batch + 1e-6
//
//     S_i has R_k in place of the credit. Only with baselines mean, leave_one_out and length. A sum whose parts cancel up
//     to rounding is 0.
//
// Equal outcomes carry no signal: if all R under a mean are the same (tree::SameReturn), B_i is R_i exactly, and D is 1
// if it is a deviation.
// A group is filtered if the rule says so and all its advantages are exactly 0. A filtered group counts in no deviation
// of the batch. REQUIRES: options validated, rewards finite.
std::vector<GroupAdvantages> Advantages(const std::vector<std::vector<EpisodeReturn>>& groups,
                                        const AdvantageRule& rule);

// A call's episode and group in the batch, and its number of loss tokens.
struct CallExtent {
  int32_t episode = 0;
  int32_t group = 0;
  int64_t loss_tokens = 0;
};

// Per call, the weight of each of its loss tokens. The weights sum to 1 over the whole unmerged batch, except under
// `constant`.
//
//   token     1 / T                  T: loss tokens of the batch
//   sequence  1 / (E * T_episode)    mean over an episode's tokens, then over the E episodes that have any
//   prompt    1 / (G * T_group)      mean over a group's tokens, then over the G groups that have any
//   constant  1 / (E * constant)     sum over an episode's tokens over a fixed number, then the mean over episodes
std::vector<double> TokenWeights(std::span<const CallExtent> calls, const std::string& aggregation,
                                 int64_t constant = 0);

}  // namespace ingot::trainer
