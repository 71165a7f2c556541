#include "trainer/parallel/weight_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace ingot::trainer {
namespace {

using namespace std::chrono_literals;

// Makes a group of threads; `rank` is called on each, for the ranks that come.
void OnGroup(int size, int come, std::chrono::milliseconds timeout,
             const std::function<void(WeightGroup&, const absl::Status& connected)>& rank) {
  WeightGroupOptions options;
  options.size = size;
  options.secret = "of the group";
  options.timeout = timeout;
  auto first = WeightGroup::Make(options);
  ASSERT_TRUE(first.ok()) << first.status();
  options.port = (*first)->options().port;
  ASSERT_GT(options.port, 0);
  std::vector<std::thread> threads;
  for (int i = 1; i < come; ++i) {
    threads.emplace_back([&rank, options, i]() mutable {
      options.rank = i;
      auto group = WeightGroup::Make(options);
      ASSERT_TRUE(group.ok()) << group.status();
      rank(**group, (*group)->Connect());
    });
  }
  rank(**first, (*first)->Connect());
  for (std::thread& thread : threads) thread.join();
}

TEST(WeightGroupTest, GivesEveryRankTheTrainersBytes) {
  OnGroup(3, 3, 30s, [](WeightGroup& group, const absl::Status& connected) {
    ASSERT_EQ(connected, absl::OkStatus());
    for (const size_t size : {size_t{1}, size_t{1000}, size_t{20} << 20}) {
      std::string bytes(size, group.options().rank == 0 ? 'w' : '-');
      ASSERT_EQ(group.Broadcast(bytes), absl::OkStatus());
      EXPECT_TRUE(bytes == std::string(size, 'w'));
    }
  });
}

TEST(WeightGroupTest, ARankThatStaysAwayEndsTheWaitForAll) {
  const auto start = std::chrono::steady_clock::now();
  OnGroup(3, 2, 1s, [](WeightGroup&, const absl::Status& connected) {
    EXPECT_TRUE(absl::IsDeadlineExceeded(connected)) << connected;
  });
  EXPECT_LT(std::chrono::steady_clock::now() - start, 20s);
}

TEST(WeightGroupTest, ARankThatDoesNotTakePartEndsTheGroupInTime) {
  std::atomic<int> ended = 0;
  OnGroup(3, 3, 2s, [&](WeightGroup& group, const absl::Status& connected) {
    ASSERT_EQ(connected, absl::OkStatus());
    if (group.options().rank == 2) {
      while (ended < 2) std::this_thread::sleep_for(5ms);
      return;
    }
    // Larger than what the sockets hold: it cannot leave while nobody reads it.
    std::string bytes(size_t{64} << 20, 'w');
    const absl::Status sent = group.Broadcast(bytes);
    EXPECT_TRUE(group.options().rank != 0 || absl::IsAborted(sent)) << sent;
    group.Abort();
    EXPECT_TRUE(absl::IsAborted(group.Broadcast(bytes)));
    ++ended;
  });
}

TEST(WeightGroupTest, AbortEndsAWaitOfAnotherThread) {
  OnGroup(2, 2, 30s, [](WeightGroup& group, const absl::Status& connected) {
    ASSERT_EQ(connected, absl::OkStatus());
    if (group.options().rank == 0) {
      std::this_thread::sleep_for(50ms);  // the other waits for bytes
      group.Abort();
      return;
    }
    std::string bytes(1000, '-');
    EXPECT_TRUE(absl::IsAborted(group.Broadcast(bytes)));
  });
}

}  // namespace
}  // namespace ingot::trainer
