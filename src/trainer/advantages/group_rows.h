// Builds a group's rows, which get advantages (branch_advantage.h), from its finished episodes and their trunks. Pure
// functions that do not use torch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "proto/tree.pb.h"
#include "trainer/advantages/branch_advantage.h"
#include "trainer/options.h"

namespace ingot::trainer {

struct TrainedGroup {
  // An episode whose calls are trained on.
  struct Part {
    int episode = 0;     // index in v1::Group.episodes
    bool trunk = false;  // true = it ended at its fork and has no return
    size_t index = 0;    // index in GroupRows::rows, or in trunk_turns for a trunk
  };
  GroupRows rows;
  std::vector<Part> parts;  // trunks first
  // Number of untrained episodes: unfinished, not for training, leaves of a retried trunk, or trunks without finished
  // leaves.
  int64_t left_out = 0;
  int64_t ungraded = 0;      // finished episodes that the reward stage could not grade, if it graded the group
  std::string reward_fault;  // names the first reward beyond tree::kMaxReward; empty = none
};

// The credit rule for an episode's turns (advantage.h).
struct RowRule {
  std::string credit = "outcome";
  double discount = 1;
  bool by_terms = false;  // fill in EpisodeReturn::terms
  bool by_role = false;   // fill in GroupRows::roles; discounts count only the role's own turns

  static RowRule Of(const TrainerOptions& options);
};

// With `by_terms`, the terms come from the grades. A group without grades has one term, its posted reward. With
// `by_role`, a role's return is the episode's own reward plus the rewards of the role's calls. Returns
// INVALID_ARGUMENT, with the episode, if a reward is not finite or is for a call that is not in the episode, if with
// `by_terms` the episode's terms differ from the group's first grade, or if with `by_role` the episode started from a
// trunk.
absl::StatusOr<TrainedGroup> RowsOf(const v1::Group& group, const RowRule& rule);

}  // namespace ingot::trainer
