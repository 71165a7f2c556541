#include "base/executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "base/manual_executor.h"

namespace ingot::base {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;

void AwaitIdle(const Executor& executor, size_t threads) {
  while (executor.idle() != threads) std::this_thread::yield();
}

std::thread::id ThreadOfOneTask(Executor& executor) {
  std::promise<std::thread::id> ran;
  executor.Post([&] { ran.set_value(std::this_thread::get_id()); });
  return ran.get_future().get();
}

// Occupies one thread of an executor until it is destroyed.
class Blocker {
 public:
  explicit Blocker(Executor& executor) {
    std::promise<void> started;
    executor.Post([&started, released = release_.get_future().share()] {
      started.set_value();
      released.wait();
    });
    started.get_future().wait();
  }
  ~Blocker() { release_.set_value(); }

 private:
  std::promise<void> release_;
};

// --- tasks ---

TEST(Executor, TheThreadThatWasBusyLastRunsTheNextTask) {
  Executor executor({.threads = 4});
  AwaitIdle(executor, 4);
  const std::thread::id first = ThreadOfOneTask(executor);
  for (int i = 0; i < 50; ++i) {
    AwaitIdle(executor, 4);
    EXPECT_EQ(ThreadOfOneTask(executor), first);
  }
}

TEST(Executor, TasksThatBlockGetAThreadEach) {
  constexpr int kThreads = 4;
  Executor executor({.threads = kThreads});
  std::promise<void> release;
  const std::shared_future<void> released = release.get_future().share();
  std::atomic<int> running{0}, done{0};
  for (int i = 0; i < kThreads + 2; ++i) {
    executor.Post([&] {
      ++running;
      released.wait();
      ++done;
    });
  }
  while (running < kThreads || executor.queued() != 2) std::this_thread::yield();
  EXPECT_EQ(executor.idle(), 0u);
  release.set_value();
  AwaitIdle(executor, kThreads);
  EXPECT_EQ(done, kThreads + 2);
}

TEST(Executor, OneThreadRunsTasksInTheOrderOfTheirPosts) {
  std::vector<int> ran;
  {
    Executor executor({.threads = 1});
    for (int i = 0; i < 100; ++i) executor.Post([&ran, i] { ran.push_back(i); });
  }
  ASSERT_EQ(ran.size(), 100u);
  EXPECT_TRUE(std::is_sorted(ran.begin(), ran.end()));
}

TEST(Executor, TryPostRejectsBeyondTheBoundAndPostDoesNot) {
  std::atomic<int> ran{0};
  Executor executor({.name = "writers", .threads = 1, .max_queued = 2});
  {
    const Blocker blocker(executor);
    EXPECT_TRUE(executor.TryPost([&] { ++ran; }).ok());
    EXPECT_TRUE(executor.TryPost([&] { ++ran; }).ok());
    const absl::Status rejected = executor.TryPost([&] { ++ran; });
    EXPECT_EQ(rejected.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_EQ(rejected.message(), "the queue of writers is full: 2 tasks wait");
    executor.Post([&] { ++ran; });
  }
  AwaitIdle(executor, 1);
  EXPECT_EQ(ran, 3);
}

TEST(Executor, AddThreadsGivesBlockedTasksMoreThreads) {
  Executor executor({.threads = 0});
  std::vector<std::unique_ptr<Blocker>> blockers;
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(executor.AddThreads(1).ok());
    blockers.push_back(std::make_unique<Blocker>(executor));
  }
  EXPECT_EQ(executor.idle(), 0u);
  blockers.clear();
  AwaitIdle(executor, 3);
}

TEST(Executor, ATaskMayOwnWhatCannotBeCopied) {
  ManualExecutor manual;
  int got = 0;
  manual.executor().Post([&, owned = std::make_unique<int>(7)] { got = *owned; });
  EXPECT_EQ(manual.RunReady(), 1);
  EXPECT_EQ(got, 7);
}

// --- shutdown ---

TEST(Executor, ShutdownRunsQueuedTasksAndTheTasksTheyPost) {
  std::atomic<int> ran{0};
  {
    Executor executor({.threads = 3});
    for (int i = 0; i < 500; ++i) {
      executor.Post([&] {
        ++ran;
        executor.Post([&] { ++ran; });
      });
    }
  }
  EXPECT_EQ(ran, 1000);
}

TEST(Executor, ShutdownRunsTheQueueOfAnExecutorWithoutThreads) {
  int ran = 0;
  {
    ManualExecutor manual;
    manual.executor().Post([&] { ++ran; });
  }
  EXPECT_EQ(ran, 1);
}

TEST(Executor, ShutdownDropsTimersAndLaterTasks) {
  ManualExecutor manual;
  Executor& executor = manual.executor();
  const auto alive = std::make_shared<int>();
  {
    const Timer timer = executor.PostAfter(seconds(1), [alive] { FAIL(); });
    executor.Shutdown();
    executor.Post([alive] { FAIL(); });
    EXPECT_EQ(executor.TryPost([alive] { FAIL(); }).code(), absl::StatusCode::kCancelled);
    const Timer late = executor.PostAfter(seconds(0), [alive] { FAIL(); });
    EXPECT_EQ(manual.Advance(seconds(2)), 0);
  }
  EXPECT_EQ(alive.use_count(), 1);
}

// --- timers ---

TEST(Executor, TimersRunAtTheirMomentInTheirOrder) {
  ManualExecutor manual;
  Executor& executor = manual.executor();
  const nanoseconds start = manual.clock().Now();
  std::vector<std::pair<int, nanoseconds>> ran;
  const auto note = [&](int id) { return [&, id] { ran.emplace_back(id, manual.clock().Now() - start); }; };
  const Timer third = executor.PostAfter(seconds(3), note(3));
  const Timer first = executor.PostAfter(seconds(1), note(1));
  const Timer second = executor.PostAt(start + seconds(3), note(2));
  executor.Post(note(0));
  EXPECT_EQ(executor.NextDue(), start + seconds(1));
  EXPECT_EQ(manual.Advance(seconds(2)), 2);
  EXPECT_EQ(manual.Advance(seconds(2)), 2);
  EXPECT_THAT(ran, ElementsAre(std::pair(0, seconds(0)), std::pair(1, seconds(1)), std::pair(3, seconds(3)),
                               std::pair(2, seconds(3))));
  EXPECT_EQ(executor.NextDue(), std::nullopt);
}

TEST(Executor, APeriodCountsFromTheEndOfTheLastRun) {
  ManualExecutor manual;
  const nanoseconds start = manual.clock().Now();
  std::vector<nanoseconds> begun;
  const Timer timer = manual.executor().PostEvery(seconds(10), [&] {
    begun.push_back(manual.clock().Now() - start);
    manual.clock().Advance(seconds(1));
  });
  manual.Advance(seconds(40));
  EXPECT_THAT(begun, ElementsAre(seconds(10), seconds(21), seconds(32)));
}

TEST(Executor, ACancelledTimerDoesNotRunAndItsTaskIsDestroyed) {
  ManualExecutor manual;
  const auto alive = std::make_shared<int>();
  Timer timer = manual.executor().PostAfter(seconds(1), [alive] { FAIL(); });
  Timer moved = std::move(timer);
  timer.Cancel();
  EXPECT_EQ(alive.use_count(), 2);
  moved = Timer();
  EXPECT_EQ(alive.use_count(), 1);
  EXPECT_EQ(manual.Advance(seconds(2)), 0);
}

TEST(Executor, ATaskMayCancelItsOwnTimer) {
  ManualExecutor manual;
  int ran = 0;
  Timer timer;
  timer = manual.executor().PostEvery(seconds(1), [&] {
    if (++ran == 3) timer.Cancel();
  });
  manual.Advance(seconds(10));
  EXPECT_EQ(ran, 3);
}

TEST(Executor, CancelWaitsForARunInProgress) {
  ManualClock clock;
  Executor executor({.threads = 2}, clock);
  std::promise<void> started;
  std::atomic<bool> cancelling{false}, ended{false};
  Timer timer = executor.PostAfter(seconds(1), [&] {
    started.set_value();
    while (!cancelling) std::this_thread::yield();
    ended = true;
  });
  clock.Advance(seconds(1));
  started.get_future().wait();
  std::thread canceller([&] {
    timer.Cancel();
    EXPECT_TRUE(ended);
  });
  cancelling = true;
  canceller.join();
}

TEST(Executor, AnIdleThreadWaitsForAnEarlierTimerThatCameLater) {
  ManualClock clock;
  Executor executor({.threads = 2}, clock);
  std::promise<void> late, early;
  const Timer first = executor.PostAfter(seconds(100), [&] { late.set_value(); });
  clock.AwaitWaiters(1);
  const Timer second = executor.PostAfter(seconds(1), [&] { early.set_value(); });
  clock.Advance(seconds(1));
  early.get_future().wait();
  clock.Advance(seconds(99));
  late.get_future().wait();
}

TEST(Executor, ATimerComesDueWhileTasksKeepEveryOtherThreadBusy) {
  ManualClock clock;
  Executor executor({.threads = 3}, clock);
  const Blocker one(executor), two(executor);
  std::promise<void> ran;
  const Timer timer = executor.PostAfter(seconds(1), [&] { ran.set_value(); });
  EXPECT_NE(ThreadOfOneTask(executor), std::thread::id());  // takes the timekeeper away for a moment
  clock.Advance(seconds(1));
  ran.get_future().wait();
}

TEST(Executor, RunsATimerOnTheRealClock) {
  Executor executor({.threads = 1});
  std::promise<void> ran;
  const Timer timer = executor.PostAfter(milliseconds(1), [&] { ran.set_value(); });
  ran.get_future().wait();
}

// --- races ---

TEST(ExecutorHammer, ManyPostersLoseNothing) {
  std::atomic<int> ran{0};
  {
    Executor executor({.threads = 4});
    std::vector<std::thread> posters;
    for (int t = 0; t < 4; ++t) {
      posters.emplace_back([&] {
        for (int i = 0; i < 2000; ++i) EXPECT_TRUE(executor.TryPost([&] { ++ran; }).ok());
      });
    }
    for (std::thread& poster : posters) poster.join();
  }
  EXPECT_EQ(ran, 8000);
}

TEST(ExecutorHammer, TimersThatAreSetCancelledAndDueAtOnce) {
  ManualClock clock;
  Executor executor({.threads = 3}, clock);
  std::atomic<int> once{0}, cancelled_ran{0}, periodic{0};
  std::atomic<int> setting{4};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 300; ++i) {
        std::promise<void> rang;
        const Timer timer = executor.PostAfter(nanoseconds(1 + (i + t) % 7), [&] {
          ++once;
          rang.set_value();
        });
        const auto life = std::make_shared<std::atomic<bool>>(true);
        {
          const Timer every = executor.PostEvery(nanoseconds(1), [&, life] {
            EXPECT_TRUE(*life);
            ++periodic;
          });
          const Timer never = executor.PostAfter(seconds(1000), [&] { ++cancelled_ran; });
          executor.Post([&] { ++periodic; });
          rang.get_future().wait();
        }
        *life = false;
      }
      --setting;
    });
  }
  while (setting > 0) clock.Advance(nanoseconds(1));
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(once, 4 * 300);
  EXPECT_EQ(cancelled_ran, 0);
  EXPECT_GE(periodic, 4 * 300);
}

}  // namespace
}  // namespace ingot::base
