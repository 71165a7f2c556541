#include "base/bounded_queue.h"

#include <gtest/gtest.h>

#include <thread>

namespace ingot::base {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(BoundedQueueTest, RefusesWhenFullAndKeepsOrder) {
  BoundedQueue<int> queue(2);
  EXPECT_TRUE(queue.TryPush(1));
  EXPECT_TRUE(queue.TryPush(2));
  EXPECT_FALSE(queue.TryPush(3));
  EXPECT_EQ(*queue.Pop(seconds(1)), 1);
  EXPECT_EQ(*queue.Pop(seconds(1)), 2);
}

TEST(BoundedQueueTest, PopTellsTimeoutAndEndApart) {
  BoundedQueue<int> queue(1);
  EXPECT_EQ(queue.Pop(milliseconds(0)).status().code(), absl::StatusCode::kDeadlineExceeded);
  queue.TryPush(7);
  queue.Close();
  EXPECT_EQ(*queue.Pop(seconds(1)), 7);
  EXPECT_EQ(queue.Pop(seconds(1)).status().code(), absl::StatusCode::kCancelled);
}

TEST(BoundedQueueTest, CloseUnblocksAWaitingPushAndPop) {
  BoundedQueue<int> full(1), empty(1);
  full.TryPush(1);
  std::thread pusher([&] { EXPECT_EQ(full.Push(2, seconds(60)).code(), absl::StatusCode::kCancelled); });
  std::thread popper([&] { EXPECT_EQ(empty.Pop(seconds(60)).status().code(), absl::StatusCode::kCancelled); });
  full.Close();
  empty.Close();
  pusher.join();
  popper.join();
}

}  // namespace
}  // namespace ingot::base
