// What a batch's episodes were like, over all of them and by domain and scaffold. Pure; no torch.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "proto/tree.pb.h"
#include "trainer/metrics.h"

namespace ingot::trainer {

// Per episode, as means over the batch's finished training episodes:
//   reward/batch_mean; response_length/{mean,max} sampled tokens that followed the run's weights; num_turns/{mean,max}
//   calls; async/staleness_{mean,max} over trained tokens, in versions;
//   agent/truncated_ratio   calls that ended at a length limit, of its calls
//   agent/repeat_ratio      calls that asked again what an earlier call of it had asked
//   agent/malformed_ratio   calls in which a tool call was begun and is not what the format says
//   agent/parallel_branches calls that no other call continues: 1 for an agent that appends to one history
//   agent/episode_seconds   from opening to end
// and every signal of Episode.signals, over the episodes that have it: under its own name if that begins with agent/,
// else as signal/NAME.
//
// Each again as NAME@domain:D and NAME@scaffold:S where the batch holds more than one domain, or scaffold.
class EpisodeMetrics {
 public:
  // At most so many different signals are reported, the first by name of those that came first.
  static constexpr int64_t kMaxSignals = 256;

  // `sampled`: its tokens that count for response_length.
  void AddEpisode(const v1::EpisodeTree& tree, int64_t sampled);
  // A trained token of an episode that was added, `age` versions old.
  void AddToken(const v1::Episode& episode, int64_t age);

  double reward_mean() const;
  void Report(StepMetrics& metrics) const;

 private:
  using Values = std::map<std::string, MeanMax>;
  // The batch's, its domain's and its scaffold's.
  template <typename Visit>
  void ForEach(const v1::Episode& episode, Visit visit);

  Values all_;
  std::map<std::string, Values> by_domain_, by_scaffold_;
  std::map<std::string, std::string> signals_;  // name of the metric, by that of the signal
};

}  // namespace ingot::trainer
