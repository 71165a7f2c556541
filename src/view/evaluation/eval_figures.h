// Computes evaluation metrics other than the mean reward, both overall and by domain and set:
//
//   eval/reward_stderr         standard error of the mean reward, clustered by task; absent with fewer than two tasks
//   eval/pass@K                probability that at least one of K samples succeeds; K = 1, 2, 4, ... up to the number
//                              of samples per task
//   eval/truncated_ratio       fraction of an episode's calls that ended at a length limit; absent without calls
//   eval/response_length/mean  sampled tokens per episode, excluding tokens from servers outside the run
//   eval/num_turns/mean        calls per episode
//   eval/seconds/mean          wall time of an episode, from its opening to its end
//   eval/tool_error_rate       an episode's agent/tool_error_rate signal, reported by its agent or verifier;
//                              otherwise, the share of its calls with a malformed tool call; absent without both
//
// EvalFigures may also report eval/pass@K for other K.
//
// If the tasks have more than one domain, each metric is repeated as NAME@domain:D, and so are eval/reward_mean and
// eval/episodes. If the task sets have names (Task.eval_set), all of these are also repeated as NAME@set:S.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "datapool/client.h"
#include "proto/tree.pb.h"

namespace ingot::view {

// Returns the unbiased estimate of pass@k from `n` samples, `c` of which succeeded: 1 - C(n-c, k) / C(n, k) (arXiv
// 2107.03374, eq. 1). REQUIRES: 0 <= c <= n and 1 <= k <= n.
double PassAtK(int64_t n, int64_t c, int64_t k);

// One task's samples.
struct TaskSums {
  double reward = 0;
  int64_t samples = 0, successes = 0;
};

// Sums over all samples, or over those in one domain or set.
struct EvalPart {
  std::map<int64_t, TaskSums> tasks;  // by group; a task has one group per evaluation
  int64_t episodes = 0;
  int64_t with_calls = 0;  // number of episodes with calls
  double truncated = 0;    // sum of truncated fractions over episodes with calls
  double tokens = 0, turns = 0, seconds = 0;
  int64_t with_tool_errors = 0;  // number of episodes with a tool error rate
  double tool_errors = 0;        // sum of their rates
};

// Aggregates an evaluation's samples. Pure. Not thread safe.
class EvalFigures {
 public:
  // A sample succeeds if its return is at least `success`, with a tolerance for rounding. `more_k`: values of K for
  // eval/pass@K other than powers of two.
  explicit EvalFigures(double success, std::vector<int64_t> more_k = {})
      : success_(success), more_k_(std::move(more_k)) {}

  // Adds a sample's newest attempt. An attempt without a reward counts as 0 and as a failure. Infrastructure failures
  // are excluded, as in eval/reward_mean.
  void Add(const v1::EpisodeTree& tree);

  // Returns the metrics listed above, or an empty map if no samples were added.
  std::map<std::string, double> Metrics() const;

  const EvalPart& all() const { return all_; }
  const std::map<std::string, EvalPart>& by_set() const { return by_set_; }  // only sets with names

 private:
  static double RewardMean(const EvalPart& part);
  void PrintParts(const std::map<std::string, EvalPart>& parts, const std::string& label,
                  std::map<std::string, double>& metrics) const;
  void Print(const EvalPart& part, const std::string& suffix, std::map<std::string, double>& metrics) const;

  double success_;
  std::vector<int64_t> more_k_;
  EvalPart all_;
  std::map<std::string, EvalPart> by_domain_, by_set_;
};

// Returns 1, 2, 4, ... up to the most samples of a task, and those values of `more` that are not larger, sorted.
std::vector<int64_t> PassesOf(const EvalPart& part, const std::vector<int64_t>& more = {});

// Adds one version's evaluation from the pool to `figures`, which stays as it is if the episodes are not stored. Reads
// the trees one group at a time. Errors come from the pool.
absl::Status AddEvaluation(datapool::Client& pool, int64_t version, EvalFigures& figures);

// Returns the metrics of one version's evaluation, or an empty map if its episodes are not stored. Errors come from the
// pool.
absl::StatusOr<std::map<std::string, double>> EvalFiguresOf(datapool::Client& pool, int64_t version, double success);

}  // namespace ingot::view
