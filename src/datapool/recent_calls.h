// A bounded cache of the most recently appended calls, so that an append finds its parent call without the database.
// Thread safe.
//
// The cache agrees with the database. A call is added once its append is durable, and deleting calls first clears the
// cache. A deletion may run between an append and its Add. So the append reads the generation before its turn in
// the commit queue, and Add ignores a call of an older generation.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/mutex.h"

namespace ingot::datapool {

// What appending a child call needs to know about its parent.
struct CallSummary {
  std::string episode_id;
  int64_t context_tokens = 0;           // of the whole prompt
  std::vector<int64_t> sampled_tokens;  // of each sampled segment
};

class RecentCalls {
 public:
  // Holds at most `max_calls` (> 0) calls, and at least the newer half of them: when the newer half is full, the
  // older half is dropped.
  explicit RecentCalls(size_t max_calls) : max_half_((max_calls + 1) / 2) {}

  uint64_t generation() const ABSL_LOCKS_EXCLUDED(mu_);
  // nullopt = not in the cache.
  std::optional<CallSummary> Find(const std::string& call_id) const ABSL_LOCKS_EXCLUDED(mu_);
  // Does nothing if ForgetAll was called since `generation` was read.
  void Add(uint64_t generation, const std::string& call_id, CallSummary summary) ABSL_LOCKS_EXCLUDED(mu_);
  void ForgetAll() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  using Calls = std::unordered_map<std::string, CallSummary>;

  const size_t max_half_;
  mutable base::Mutex mu_;
  uint64_t generation_ ABSL_GUARDED_BY(mu_) = 0;
  Calls newer_ ABSL_GUARDED_BY(mu_), older_ ABSL_GUARDED_BY(mu_);
};

}  // namespace ingot::datapool
