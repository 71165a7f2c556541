// What the calls that were appended last look like to those that continue them, so that an append need not look for
// its parent in the database. Bounded; thread safe.
//
// It says nothing that the database does not: a call is entered once its append is durable, and whoever deletes calls
// forgets all of them first. An append notes the generation before its turn in the commit queue, and enters its call
// under it: what was appended before a deletion is not entered after it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/mutex.h"

namespace ingot::datapool {

// A call, as far as a call that continues it must know.
struct CallTail {
  std::string episode_id;
  int64_t context_tokens = 0;           // of its whole prompt
  std::vector<int64_t> sampled_tokens;  // of each segment that it sampled
};

class RecentCalls {
 public:
  // Of `max_calls` (> 0) calls at most half are kept for sure: the older half is forgotten as a whole.
  explicit RecentCalls(size_t max_calls) : max_half_((max_calls + 1) / 2) {}

  uint64_t generation() const ABSL_LOCKS_EXCLUDED(mu_);
  // nullopt: it is not known here.
  std::optional<CallTail> Find(const std::string& call_id) const ABSL_LOCKS_EXCLUDED(mu_);
  // Does nothing if all were forgotten since `generation`.
  void Keep(uint64_t generation, const std::string& call_id, CallTail tail) ABSL_LOCKS_EXCLUDED(mu_);
  void ForgetAll() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  using Calls = std::unordered_map<std::string, CallTail>;

  const size_t max_half_;
  mutable base::Mutex mu_;
  uint64_t generation_ ABSL_GUARDED_BY(mu_) = 0;
  Calls newer_ ABSL_GUARDED_BY(mu_), older_ ABSL_GUARDED_BY(mu_);
};

}  // namespace ingot::datapool
