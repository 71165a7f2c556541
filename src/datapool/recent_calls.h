// A bounded cache of recently appended calls, which lets an append find its parent call without a database read. Thread
// safe.
//
// The cache is consistent with the database. A call is added once its append is durable, and the cache is cleared
// before calls are deleted. A deletion may run between an append and its Add, so the append reads the generation before
// its turn in the commit queue, and Add ignores calls from an older generation.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/mutex.h"

namespace ingot::datapool {

// The data about a parent call that is needed to append a child.
struct CallSummary {
  std::string episode_id;
  int64_t context_tokens = 0;           // number of tokens in the full prompt
  std::vector<int64_t> sampled_tokens;  // number of tokens in each sampled segment
};

class RecentCalls {
 public:
  // Holds at most `max_calls` (> 0) calls. When the newer half is full, the older half is dropped.
  explicit RecentCalls(size_t max_calls) : max_half_((max_calls + 1) / 2) {}

  uint64_t generation() const ABSL_LOCKS_EXCLUDED(mu_);
  // Returns nullopt if the call is not in the cache.
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
