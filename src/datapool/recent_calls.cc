#include "datapool/recent_calls.h"

#include <utility>

namespace ingot::datapool {

uint64_t RecentCalls::generation() const {
  base::MutexLock lock(mu_);
  return generation_;
}

std::optional<CallSummary> RecentCalls::Find(const std::string& call_id) const {
  base::MutexLock lock(mu_);
  for (const Calls* calls : {&newer_, &older_}) {
    if (const auto found = calls->find(call_id); found != calls->end()) return found->second;
  }
  return std::nullopt;
}

void RecentCalls::Add(uint64_t generation, const std::string& call_id, CallSummary summary) {
  Calls forgotten;  // destroyed after the lock is released
  base::MutexLock lock(mu_);
  if (generation != generation_) return;
  newer_[call_id] = std::move(summary);
  if (newer_.size() < max_half_) return;
  forgotten = std::exchange(older_, std::exchange(newer_, {}));
}

void RecentCalls::ForgetAll() {
  Calls newer, older;
  base::MutexLock lock(mu_);
  ++generation_;
  newer.swap(newer_);
  older.swap(older_);
}

}  // namespace ingot::datapool
