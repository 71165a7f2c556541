// Loops on borrowed threads.
#include "kernels/torch/threads.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

namespace ingot::kernels {
namespace {

int ManyIdle(int) { return 64; }

// Returns the number of ranges in which the calling thread's loops run. The ranges wait for each other for a while, so
// that each has a thread of its own.
int RangesOfALoop() {
  std::this_thread::sleep_for(ComputeMember::kLook + std::chrono::milliseconds(1));  // until Borrow looks again
  std::atomic<int> ranges{0};
  TorchParallelFor()(64, [&](int64_t, int64_t) {
    ++ranges;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  });
  return ranges;
}

TEST(ComputingTest, LoopsUseTheThreadsOfAWaitingMember) {
  const auto table = std::make_shared<ComputeTable>();
  ComputeMember trainer(table, 0, 2, 3, ManyIdle), engine(table, 32, 1, 3, ManyIdle);
  std::thread([&] {
    UseThreads(1);
    EXPECT_EQ(RangesOfALoop(), 1) << "it does not borrow yet";
    const Computing computing(&engine);
    EXPECT_EQ(RangesOfALoop(), 3);
    EXPECT_EQ(at::get_num_threads(), 1) << "torch's own operators";
    trainer.Begin();
    EXPECT_EQ(RangesOfALoop(), 1);
    trainer.End();
    EXPECT_EQ(RangesOfALoop(), 3);
  }).join();
  EXPECT_GT(table->entries[32].borrowed_ns, 2'000'000);
  EXPECT_EQ(table->entries[0].borrowed_ns, 0);
  EXPECT_EQ(table->entries[32].computes_until_ns, 0) << "it lends its own again";
}

TEST(ComputingTest, AThreadThatUsesAllThreadsDoesNotBorrowMore) {
  const auto table = std::make_shared<ComputeTable>();
  ComputeMember trainer(table, 0, 1, 3, ManyIdle);
  std::thread([&] {
    UseThreads(3);  // as a supervised stage does
    const Computing computing(&trainer);
    EXPECT_EQ(RangesOfALoop(), 3);
  }).join();
  EXPECT_EQ(table->entries[0].borrowed_ns, 0);
}

TEST(ComputingTest, WithoutAMemberNothingIsBorrowed) {
  std::thread([] {
    UseThreads(2);
    const Computing computing(nullptr);
    EXPECT_EQ(RangesOfALoop(), 2);
  }).join();
}

}  // namespace
}  // namespace ingot::kernels
