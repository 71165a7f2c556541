// The rows of a group, which get advantages (branch_advantage.h): its finished episodes, and the trunks that they left.
// Pure; no torch.
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
  // An episode whose calls are trained.
  struct Part {
    int episode = 0;     // index in v1::Group.episodes
    bool trunk = false;  // it ended at its fork and has no return
    size_t index = 0;    // of GroupRows::rows, or of its trunk_turns
  };
  GroupRows rows;
  std::vector<Part> parts;  // trunks first
  int64_t left_out = 0;     // episodes that did not finish, are not for training, or left a trunk that was tried again;
                            // trunks that no finished episode left
  int64_t ungraded = 0;     // finished episodes that the reward stage could not judge, in a group that it judged
  std::string reward_fault;  // names the first reward beyond tree::kMaxReward; empty = none
};

// The credit rule for the turns of an episode (advantage.h).
struct RowRule {
  std::string credit = "outcome";
  double discount = 1;
  bool by_terms = false;  // rows have EpisodeReturn::terms
  bool by_role = false;   // fills GroupRows::roles; the rows of a role are discounted over its own turns

  static RowRule Of(const TrainerOptions& options);
};

// With `by_terms` the terms are the grades' terms; a group without grades has one term, its posted reward. With
// `by_role` a role's return is the episode's own reward plus the rewards of the role's calls. INVALID_ARGUMENT names
// the episode: a reward is not finite, or is of a call that the episode does not hold; with `by_terms` its terms differ
// from the group's first grade; with `by_role` it left a trunk.
absl::StatusOr<TrainedGroup> RowsOf(const v1::Group& group, const RowRule& rule);

}  // namespace ingot::trainer
