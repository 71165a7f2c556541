// Serializes, in request order, an episode's reward writes and attempts to end it. So a reward that the client
// abandoned never overwrites the reward posted in its place. Not thread safe: Episode holds its lock while calling it.
#pragma once

#include <chrono>
#include <cstdint>
#include <set>

#include "base/clock.h"
#include "base/mutex.h"

namespace ingot::gateway {

class StoringTurns {
 public:
  // Waits until nothing is being stored and no earlier caller is waiting. Returns false if the caller did not get its
  // turn by `deadline`. Releases `mu` while waiting. `changed` must be signaled after each End. Await also signals
  // it.
  bool Await(const base::Clock& clock, base::Mutex& mu, base::CondVar& changed, std::chrono::nanoseconds deadline)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    const int64_t place = callers_++;
    waiting_.insert(place);
    bool late = false;
    while (!late && (storing_ || *waiting_.begin() != place)) {
      late = clock.Now() >= deadline;
      if (!late) clock.WaitUntil(changed, mu, deadline);
    }
    waiting_.erase(place);
    changed.SignalAll();  // the next waiter may be first now
    return !late;
  }
  // REQUIRES: Await returned true, and the lock has been held since.
  void Begin() { storing_ = true; }
  void End() { storing_ = false; }
  bool storing() const { return storing_; }

 private:
  bool storing_ = false;
  int64_t callers_ = 0;        // callers so far
  std::set<int64_t> waiting_;  // in call order
};

}  // namespace ingot::gateway
