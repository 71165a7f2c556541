// Tests of base/process_memory.h in a program that links jemalloc, as `ingot` does.
#include <gtest/gtest.h>

#include <barrier>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "base/process_memory.h"

extern "C" int mallctl(const char* name, void* old_value, size_t* old_size, void* new_value, size_t new_size)
    __attribute__((weak));

namespace ingot::base {
namespace {

constexpr int64_t kBlock = 64 << 10, kBlocks = 4096;  // 256 MiB

// Runs on the main thread, since an arena returns its memory when its last thread ends.
void TouchAndFree() {
  std::vector<std::unique_ptr<char[]>> blocks(kBlocks);
  for (auto& block : blocks) {
    block = std::make_unique_for_overwrite<char[]>(kBlock);
    std::memset(block.get(), 1, kBlock);
  }
}

TEST(Allocator, ResetPeakMemoryReturnsAllFreedMemory) {
  if (mallctl == nullptr) GTEST_SKIP() << "not linked with jemalloc";
  const int64_t before = ResidentMemory();
  TouchAndFree();
  ASSERT_GT(ResidentMemory() - before, kBlock * kBlocks / 8) << "nothing was left to give back";
  ASSERT_TRUE(ResetPeakMemory());
  EXPECT_LT(PeakMemory() - before, kBlock * kBlocks / 32);
}

// Threads take over each other's work, so memory that one thread freed must serve another.
TEST(Allocator, MemoryFreedByOneThreadServesAnother) {
  if (mallctl == nullptr) GTEST_SKIP() << "not linked with jemalloc";
  constexpr size_t kSmall = 512, kCount = 1 << 18;  // 128 MiB in small blocks
  constexpr int kThreads = 8;
  std::vector<std::unique_ptr<char[]>> blocks(kCount);
  const auto fill = [&] {
    for (auto& block : blocks) {
      if (block != nullptr) continue;
      block = std::make_unique_for_overwrite<char[]>(kSmall);
      std::memset(block.get(), 1, kSmall);
    }
  };
  fill();
  const int64_t before = ResidentMemory();
  std::barrier turn(kThreads);  // all threads live at once: a later one would reuse the arena of an ended one
  std::vector<std::thread> threads;
  for (size_t mine = 0; mine < kThreads; ++mine) {
    threads.emplace_back([&, mine] {
      for (size_t now = 0; now < kThreads; ++now) {
        turn.arrive_and_wait();
        if (now != mine) continue;
        fill();
        for (size_t i = now % 2; i < kCount; i += 2) blocks[i].reset();  // no two adjacent ones
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LT(ResidentMemory() - before, int64_t{kSmall} * kCount / 8);
}

}  // namespace
}  // namespace ingot::base
