// Computes metrics for a batch's episodes, overall and by domain and scaffold. Pure functions that do not use torch.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "proto/tree.pb.h"
#include "trainer/metrics.h"

namespace ingot::trainer {

// Reports means (and maxima, where noted) over the batch's finished training episodes of these per-episode values:
//
//   reward/batch_mean            return
//   reward/outcome               posted reward, including calls, before any term; over episodes that have one
//   reward/term/NAME             value of a reward term before its weight, including calls; over graded episodes
//   response_length/{mean,max}   sampled tokens that followed the run's weights
//   num_turns/{mean,max}         calls
//   async/staleness_{mean,max}   age of the trained tokens, in versions
//   agent/truncated_ratio        fraction of calls that ended at a length limit
//   agent/halted_ratio           fraction of calls that the engine stopped because of repetition
//   agent/repeat_ratio           fraction of calls that repeat an earlier call's request
//   agent/malformed_ratio        fraction of calls with a tool call that violates the output format
//   agent/parallel_branches      calls that no other call continues; 1 for an agent with a single history
//   agent/episode_seconds        time from opening to end
//
// Also reports every signal in Episode.signals, over the episodes that have it. The metric has the signal's own name if
// tree/signal_bounds.h allows it, and signal/NAME otherwise.
//
// If the batch has more than one domain, each metric is repeated as NAME@domain:D. The same applies to NAME@scaffold:S.
//
// If the policy's calls have more than one role, reward/batch_mean@role:R is the mean return of a role, which is the
// episode's own reward plus the rewards of the role's calls, over the episodes with that role.
class EpisodeMetrics {
 public:
  // Maximum number of distinct signals reported. Signals from earlier episodes take precedence; within an episode, they
  // are sorted by name.
  static constexpr int64_t kMaxSignals = 256;
  // Maximum number of distinct roles reported. Roles from earlier episodes take precedence.
  static constexpr int64_t kMaxRoles = 16;

  // `sampled` is the episode's response_length. `trunk_turns` is the number of turns in its trunk.
  void AddEpisode(const v1::EpisodeTree& tree, int64_t sampled, int64_t trunk_turns = 0);
  // Adds a trained token that is `age` versions old. Its episode must already have been added.
  void AddToken(const v1::Episode& episode, int64_t age);

  // NaN = no episode was graded.
  double reward_mean() const;
  void Report(StepMetrics& metrics) const;

 private:
  using Values = std::map<std::string, MeanMax>;
  // Visits the values for the batch, the episode's domain, and its scaffold.
  template <typename Visit>
  void ForEach(const v1::Episode& episode, Visit visit);

  void AddRoles(const v1::EpisodeTree& tree);

  Values all_;
  std::map<std::string, Values> by_domain_, by_scaffold_;
  std::map<std::string, std::string> signals_;   // signal -> metric name
  std::map<std::string, MeanMax> role_returns_;  // "default" = calls without a role
};

}  // namespace ingot::trainer
