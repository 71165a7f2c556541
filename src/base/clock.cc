#include "base/clock.h"

#include <thread>

namespace ingot::base {
namespace {

constexpr std::chrono::hours kLongestWait{24};  // keeps a deadline that means "never" from overflowing

class RealClock final : public Clock {
 public:
  std::chrono::nanoseconds Now() const override { return std::chrono::steady_clock::now().time_since_epoch(); }
  int64_t UnixNanos() const override {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
        .count();
  }
  bool WaitUntil(CondVar& changed, Mutex& mu, std::chrono::nanoseconds deadline) const override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    return changed.WaitFor(mu, std::min<std::chrono::nanoseconds>(deadline - Now(), kLongestWait)) || Now() < deadline;
  }
};

}  // namespace

const Clock& Clock::Real() {
  static const RealClock* const clock = new RealClock;
  return *clock;
}

bool ManualClock::WaitUntil(CondVar& changed, Mutex& mu, std::chrono::nanoseconds deadline) const {
  Waiter self{&mu, &changed, deadline};
  {
    const MutexLock lock(waiters_mu_);
    if (Now() >= deadline) return false;
    waiters_.push_back(&self);
    waiters_changed_.SignalAll();
  }
  changed.Wait(mu);
  const MutexLock lock(waiters_mu_);
  std::erase(waiters_, &self);
  return Now() < deadline;
}

void ManualClock::Advance(std::chrono::nanoseconds by) {
  {
    const MutexLock lock(waiters_mu_);
    now_ += by.count();
  }
  while (true) {
    {
      const MutexLock lock(waiters_mu_);  // while it is held, every waiter in the list is inside WaitUntil
      const auto late = std::find_if(waiters_.begin(), waiters_.end(),
                                     [&](const Waiter* waiter) { return !waiter->woken && waiter->deadline <= Now(); });
      if (late == waiters_.end()) return;
      // A signal between the waiter's entry in the list and its Wait would be lost. The waiter holds its mutex during
      // that time, so the signal is sent with the mutex held. Uses TryLock because that mutex comes first in the lock
      // order.
      Mutex* const mu = (*late)->mu;
      if (mu->TryLock()) {
        (*late)->woken = true;
        (*late)->changed->SignalAll();
        mu->Unlock();
        continue;
      }
    }
    std::this_thread::yield();
  }
}

void ManualClock::AwaitWaiters(int count) const {
  const MutexLock lock(waiters_mu_);
  while (static_cast<int>(waiters_.size()) < count) waiters_changed_.Wait(waiters_mu_);
}

}  // namespace ingot::base
