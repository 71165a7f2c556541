// The tokens that an episode's calls may use, prompts counted whole. Thread safe: its lock guards the tokens used, and no
// other lock is taken under it.
#pragma once

#include <cstdint>
#include <string>

#include "base/mutex.h"
#include "base/status.h"

namespace ingot::gateway {

class TokenBudget {
 public:
  // `limit`: 0 = none. `used`: at earlier gateways.
  TokenBudget(int64_t limit, int64_t used) : limit_(limit), used_(used) {}

  // Counts a call's prompt and returns the number of tokens that it may sample; 400 episode_limit: none. Each of
  // several concurrent calls may sample all tokens that are left when it begins.
  absl::StatusOr<int64_t> Take(int64_t prompt, const std::string& episode_id);
  // After Take: counts the sampled tokens, or takes back the prompt of a call that failed without a sample.
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
