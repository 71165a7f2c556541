// Tracks the tokens that an episode's calls may use. Each prompt counts in full. Thread safe. Its lock guards the
// number of used tokens, and other locks are never taken while it is held.
#pragma once

#include <cstdint>
#include <string>

#include "base/mutex.h"
#include "base/status.h"

namespace ingot::gateway {

class TokenBudget {
 public:
  // `limit` 0 = no limit. `used` is the number of tokens used on earlier gateways.
  TokenBudget(int64_t limit, int64_t used) : limit_(limit), used_(used) {}

  // Counts a call's prompt and returns the number of tokens that the call may sample. Returns 400 episode_limit if
  // there are none left. Concurrent calls may each sample all tokens that were left when they began.
  absl::StatusOr<int64_t> Take(int64_t prompt, const std::string& episode_id);
  // Called after Take. CountSampled counts the sampled tokens. ReturnPrompt refunds the prompt tokens if a call failed
  // before it sampled.
  void CountSampled(int64_t sampled) { Add(sampled); }
  void ReturnPrompt(int64_t prompt) { Add(-prompt); }

 private:
  void Add(int64_t count) {
    base::MutexLock lock(mu_);
    used_ += count;
  }

  const int64_t limit_;
  base::Mutex mu_;
  int64_t used_ ABSL_GUARDED_BY(mu_);
};

}  // namespace ingot::gateway
