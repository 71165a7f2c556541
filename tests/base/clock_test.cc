#include "base/clock.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <vector>

namespace ingot::base {
namespace {

using std::chrono::nanoseconds;
using std::chrono::seconds;

TEST(ManualClock, AdvanceMovesBothReadings) {
  ManualClock clock(seconds(10));
  clock.Advance(seconds(5));
  EXPECT_EQ(clock.Now(), seconds(15));
  EXPECT_EQ(clock.UnixNanos(), nanoseconds(seconds(15)).count());
}

TEST(ManualClock, AWaitForAPastDeadlineEndsAtOnce) {
  ManualClock clock(seconds(10));
  Mutex mu;
  CondVar changed;
  const MutexLock lock(mu);
  EXPECT_FALSE(clock.WaitUntil(changed, mu, seconds(10)));
  EXPECT_FALSE(Clock::Real().WaitUntil(changed, mu, nanoseconds(0)));
}

TEST(ManualClock, AdvanceWakesTheWaitersWhoseDeadlineItReaches) {
  ManualClock clock(seconds(0));
  Mutex mu;
  CondVar changed;
  int late = 0;
  std::vector<std::thread> threads;
  for (const int deadline : {10, 20, 30}) {
    threads.emplace_back([&, deadline] {
      const MutexLock lock(mu);
      while (clock.WaitUntil(changed, mu, seconds(deadline))) {
      }
      EXPECT_GE(clock.Now(), seconds(deadline));
      ++late;
      changed.SignalAll();
    });
  }
  clock.AwaitWaiters(3);
  clock.Advance(seconds(20));
  {
    const MutexLock lock(mu);
    while (late < 2) changed.Wait(mu);
    EXPECT_EQ(late, 2);
  }
  clock.Advance(seconds(10));
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(late, 3);
}

TEST(ManualClock, ASignalWakesAWaiterBeforeItsDeadline) {
  ManualClock clock;
  Mutex mu;
  CondVar changed;
  bool ready = false;
  std::thread waiter([&] {
    const MutexLock lock(mu);
    while (!ready) EXPECT_TRUE(clock.WaitUntil(changed, mu, nanoseconds::max()));
  });
  clock.AwaitWaiters(1);
  {
    const MutexLock lock(mu);
    ready = true;
    changed.SignalAll();
  }
  waiter.join();
}

TEST(Clock, TheRealOneWaitsForADeadlineOfNever) {
  Mutex mu;
  CondVar changed;
  bool ready = false;
  std::thread waiter([&] {
    const MutexLock lock(mu);
    while (!ready) Clock::Real().WaitUntil(changed, mu, nanoseconds::max());
  });
  {
    const MutexLock lock(mu);
    ready = true;
    changed.SignalAll();
  }
  waiter.join();
}

// Each thread lets a deadline of its own pass again and again, while the clock moves; a lost wake-up hangs the test.
TEST(ManualClock, NoWakeUpIsLost) {
  ManualClock clock;
  std::atomic<int> running{4};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i) {
        Mutex mu;  // gone before the next round: Advance must not touch it any more
        CondVar changed;
        const MutexLock lock(mu);
        const nanoseconds deadline = clock.Now() + nanoseconds(1);
        while (clock.Now() < deadline) clock.WaitUntil(changed, mu, deadline);
      }
      --running;
    });
  }
  while (running > 0) clock.Advance(nanoseconds(1));
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace ingot::base
