// Breaks down the trainer's waits for batches by cause. A wait ends when the batch's last group gets its reward. Its
// causes are the activities of that group's last episode during the wait.
//
//   wait      |----------------------------------------------------------------|
//             t0        last episode of the last group          end     reward  batch  received
//   cause     | start | queue and prompt | decoding | agent | ... | grading | scheduler | reading trees |
//
// Thread safe. Each step's causes are computed once and cached.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "datapool/client.h"
#include "view/runs/accounts.h"
#include "view/runs/journal.h"

namespace ingot::view {

class Waits {
 public:
  // Returns how many seconds each cause contributed to one row's wait. They add up to its perf/wait_seconds.
  std::vector<Part> CausesOf(const Row& row, const Journal& journal, datapool::Client& pool);
  // Called when switching to another run, whose steps may have the same numbers.
  void Forget();

 private:
  base::Mutex mu_;
  std::map<int64_t, std::vector<Part>> found_ ABSL_GUARDED_BY(mu_);  // by step
};

// Returns the seconds per cause in an episode from `from` to `to` (ns). The episode must include its calls. Pure.
std::map<std::string, double> CausesWithin(const v1::EpisodeTree& episode, int64_t from, int64_t to);

// Describes how a running episode has spent its time so far, largest part first: "agent and its tools 31 s, engine:
// decoding 4 s". A call is recorded when it ends. If `engines_rest` is true, no engine has a call, so the time after
// the last call is attributed to the agent. Pure.
std::string DescribeTimeSpent(const v1::EpisodeTree& episode, int64_t now_ns, bool engines_rest);

}  // namespace ingot::view
