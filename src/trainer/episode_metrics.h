// Metrics of a batch's episodes, over all of them and by domain and scaffold. Pure; no torch.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "proto/tree.pb.h"
#include "trainer/metrics.h"

namespace ingot::trainer {

// Means over the batch's finished training episodes, of these numbers per episode:
//
//   reward/batch_mean            return
//   reward/outcome               reward that was posted, calls included, before any term; of episodes with one
//   reward/term/NAME             value of a reward term before its weight, calls included; of judged episodes
//   response_length/{mean,max}   sampled tokens that followed the run's weights
//   num_turns/{mean,max}         calls
//   async/staleness_{mean,max}   age of the trained tokens, in versions
//   agent/truncated_ratio        share of calls that ended at a length limit
//   agent/halted_ratio           share of calls that the engine ended for repeating themselves
//   agent/repeat_ratio           share of calls that repeat the request of an earlier call
//   agent/malformed_ratio        share of calls with a tool call that breaks the output format
//   agent/parallel_branches      calls that no other call continues: 1 for an agent that appends to one history
//   agent/episode_seconds        from opening to end
//
// and every signal of Episode.signals, over the episodes that have it: under its own name if tree/signal_bounds.h says
// so, else as signal/NAME.
//
// If the batch holds more than one domain, each metric is repeated as NAME@domain:D; likewise NAME@scaffold:S.
class EpisodeMetrics {
 public:
  // The largest number of different signals that are reported: the first ones, by name within one episode.
  static constexpr int64_t kMaxSignals = 256;

  // `sampled`: the episode's tokens for response_length. `trunk_turns`: turns of its trunk.
  void AddEpisode(const v1::EpisodeTree& tree, int64_t sampled, int64_t trunk_turns = 0);
  // Adds a trained token, `age` versions old, of an episode that was added.
  void AddToken(const v1::Episode& episode, int64_t age);

  // NaN: no episode was judged.
  double reward_mean() const;
  void Report(StepMetrics& metrics) const;

 private:
  using Values = std::map<std::string, MeanMax>;
  // Visits the values of the batch, of the episode's domain and of its scaffold.
  template <typename Visit>
  void ForEach(const v1::Episode& episode, Visit visit);

  Values all_;
  std::map<std::string, Values> by_domain_, by_scaffold_;
  std::map<std::string, std::string> signals_;  // signal -> name of its metric
};

}  // namespace ingot::trainer
