// The figures of an evaluation besides its mean reward: standard error, pass@k, lengths, and all of them by domain and
// set.
//
//   eval/reward_stderr           standard error of the mean reward, clustered by task; absent with fewer than two tasks
//   eval/pass@K                  chance that one of K samples of a task succeeds; K = 1, 2, 4, ... up to its samples
//   eval/truncated_ratio         share of an episode's calls that ended at a length limit; absent without calls
//   eval/response_length/mean    sampled tokens of an episode, except tokens from servers outside the run
//   eval/num_turns/mean          calls of an episode
//
// If the tasks have more than one domain, each figure is repeated as NAME@domain:D, with eval/reward_mean and
// eval/episodes. If their sets have names (Task.eval_set), the same as NAME@set:S.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/status.h"
#include "datapool/client.h"
#include "proto/tree.pb.h"

namespace ingot::view {

// The chance that at least one of `k` samples, drawn without replacement from `n` of which `c` succeeded, is a success:
// 1 - C(n-c, k) / C(n, k), without bias (arXiv 2107.03374, eq. 1). REQUIRES: 0 <= c <= n and 1 <= k <= n.
double PassAtK(int64_t n, int64_t c, int64_t k);

// Sums up the samples of one evaluation. Pure; not thread safe.
class EvalFigures {
 public:
  // A sample succeeds if its return is at least `success`, up to rounding.
  explicit EvalFigures(double success) : success_(success) {}

  // Adds the newest attempt of a sample. An attempt without a reward counts as 0 and as a failure. An infrastructure
  // failure is left out, as in eval/reward_mean.
  void Add(const v1::EpisodeTree& tree);

  // The metrics above. Empty = nothing was added.
  std::map<std::string, double> Metrics() const;

 private:
  struct TaskSums {
    double reward = 0;
    int64_t samples = 0, successes = 0;
  };
  // All episodes, or a domain's, or a set's.
  struct Part {
    std::map<int64_t, TaskSums> tasks;  // by group: a task has one group in each evaluation
    int64_t episodes = 0;
    int64_t with_calls = 0;  // episodes
    double truncated = 0;    // sum of shares over episodes with calls
    double tokens = 0, turns = 0;
  };
  static double RewardMean(const Part& part);
  static void PrintParts(const std::map<std::string, Part>& parts, const std::string& label,
                         std::map<std::string, double>& metrics);
  static void Print(const Part& part, const std::string& suffix, std::map<std::string, double>& metrics);

  const double success_;
  Part all_;
  std::map<std::string, Part> by_domain_, by_set_;  // by_set_: sets with names
};

// The figures of one version's evaluation, whose episodes are in the pool; empty = they are not stored. Reads their
// trees group by group. Errors are the pool's.
absl::StatusOr<std::map<std::string, double>> EvalFiguresOf(datapool::Client& pool, int64_t version, double success);

}  // namespace ingot::view
