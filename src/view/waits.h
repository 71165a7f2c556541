// The trainer's waits for batches, by cause. A wait ends when the batch's last group has its reward; the cause is what
// that group's last episode did during the wait.
//
//   wait      |----------------------------------------------------------------|
//             t0        last episode of the last group          end     reward  batch  received
//   cause     | start | queue and prompt | decoding | agent | ... | grading | scheduler | reading trees |
//
// Thread safe. A step's causes are found once, and kept.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "datapool/client.h"
#include "view/accounts.h"
#include "view/journal.h"

namespace ingot::view {

class Waits {
 public:
  // The causes of one row's wait, in seconds; they add up to its perf/wait_seconds.
  std::vector<Part> CausesOf(const Row& row, const Journal& journal, datapool::Client& pool);
  // For another run, whose steps may have the same numbers.
  void Forget();

 private:
  base::Mutex mu_;
  std::map<int64_t, std::vector<Part>> found_ ABSL_GUARDED_BY(mu_);  // by step
};

// The same for an episode with its calls and one stretch [from, to) of nanoseconds. Pure.
std::map<std::string, double> CausesWithin(const v1::EpisodeTree& episode, int64_t from, int64_t to);

// Where the time of a running episode went so far, the largest first: "agent and its tools 31 s, engine: decoding 4 s".
// A call is recorded when it ends. `engines_rest`: no engine has a call, so the time after the last call is the
// agent's. Pure.
std::string HeldUpBy(const v1::EpisodeTree& episode, int64_t now_ns, bool engines_rest);

}  // namespace ingot::view
