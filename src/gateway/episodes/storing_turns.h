// Lets one reward or end of an episode be stored at a time, in the order of their requests: a reward that its client
// gave up on never follows the reward posted in its place. Not thread safe: Episode calls it under its lock.
#pragma once

#include <chrono>
#include <cstdint>
#include <set>

#include "base/clock.h"
#include "base/mutex.h"

namespace ingot::gateway {

class StoringTurns {
 public:
  // Waits until nothing is being stored and no earlier caller waits. False: it is not the caller's turn at `deadline`.
  // Releases `mu` meanwhile; `changed` is signalled after each End, and by Await.
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
  // REQUIRES: Await has returned true under the same lock.
  void Begin() { storing_ = true; }
  void End() { storing_ = false; }
  bool storing() const { return storing_; }

 private:
  bool storing_ = false;
  int64_t callers_ = 0;        // so far
  std::set<int64_t> waiting_;  // by their order
};

}  // namespace ingot::gateway
