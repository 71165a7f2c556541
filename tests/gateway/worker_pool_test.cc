#include "gateway/worker_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>
#include <vector>

namespace ingot::gateway {
namespace {

void WaitForIdle(const WorkerPool& pool, size_t threads) {
  while (pool.idle() != threads) std::this_thread::yield();
}

std::thread::id RunOne(WorkerPool& pool) {
  std::promise<std::thread::id> ran;
  pool.Submit([&] { ran.set_value(std::this_thread::get_id()); });
  return ran.get_future().get();
}

TEST(WorkerPool, TheThreadThatWasBusyLastGetsTheNextJob) {
  WorkerPool pool(4, 10);
  WaitForIdle(pool, 4);
  const std::thread::id first = RunOne(pool);
  for (int i = 0; i < 50; ++i) {
    WaitForIdle(pool, 4);
    EXPECT_EQ(RunOne(pool), first);
  }
}

TEST(WorkerPool, JobsThatBlockGetAThreadEach) {
  constexpr int kThreads = 4;
  WorkerPool pool(kThreads, 10);
  std::promise<void> release;
  const std::shared_future<void> released = release.get_future().share();
  std::atomic<int> running{0}, done{0};
  for (int i = 0; i < kThreads + 2; ++i) {
    pool.Submit([&] {
      ++running;
      released.wait();
      ++done;
    });
  }
  while (running < kThreads || pool.queued() != 2) std::this_thread::yield();
  EXPECT_EQ(pool.idle(), 0u);
  release.set_value();
  while (done < kThreads + 2) std::this_thread::yield();
  WaitForIdle(pool, kThreads);
  EXPECT_EQ(pool.queued(), 0u);
}

TEST(WorkerPool, TrySubmitIsBoundedAndSubmitIsNot) {
  WorkerPool pool(1, 2);
  std::promise<void> release, blocked;
  pool.Submit([&] {
    blocked.set_value();
    release.get_future().wait();
  });
  blocked.get_future().wait();
  std::atomic<int> ran{0};
  EXPECT_TRUE(pool.TrySubmit([&] { ++ran; }));
  EXPECT_TRUE(pool.TrySubmit([&] { ++ran; }));
  EXPECT_FALSE(pool.TrySubmit([&] { ++ran; }));
  pool.Submit([&] { ++ran; });
  release.set_value();
  WaitForIdle(pool, 1);
  EXPECT_EQ(ran, 3);
}

TEST(WorkerPool, RunsQueuedJobsBeforeItsDestructorReturns) {
  std::atomic<int> ran{0};
  {
    WorkerPool pool(3, 1000);
    for (int i = 0; i < 500; ++i) pool.Submit([&] { ++ran; });
  }
  EXPECT_EQ(ran, 500);
}

TEST(WorkerPool, ConcurrentSubmittersLoseNoJob) {
  std::atomic<int> ran{0};
  {
    WorkerPool pool(4, 100000);
    std::vector<std::thread> submitters;
    for (int t = 0; t < 4; ++t) {
      submitters.emplace_back([&] {
        for (int i = 0; i < 2000; ++i) EXPECT_TRUE(pool.TrySubmit([&] { ++ran; }));
      });
    }
    for (std::thread& submitter : submitters) submitter.join();
  }
  EXPECT_EQ(ran, 8000);
}

}  // namespace
}  // namespace ingot::gateway
