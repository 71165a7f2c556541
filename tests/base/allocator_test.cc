// process_memory.h in a program that is linked with jemalloc, as `ingot` is.
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

// On this thread, which goes on: what is left of an arena whose last thread ends goes back anyway.
void TouchAndFree() {
  std::vector<std::unique_ptr<char[]>> blocks(kBlocks);
  for (auto& block : blocks) {
    block = std::make_unique_for_overwrite<char[]>(kBlock);
    std::memset(block.get(), 1, kBlock);
  }
}

TEST(Allocator, GivesAllFreedMemoryBackWhenThePeakIsReset) {
  if (mallctl == nullptr) GTEST_SKIP() << "not linked with jemalloc";
  const int64_t before = ResidentMemory();
  TouchAndFree();
  ASSERT_GT(ResidentMemory() - before, kBlock * kBlocks / 8) << "nothing was left to give back";
  ASSERT_TRUE(ResetPeakMemory());
  EXPECT_LT(PeakMemory() - before, kBlock * kBlocks / 32);
}

// Threads take each other's work over: the room that one has freed must serve the next.
TEST(Allocator, WhatAThreadFreedServesAnother) {
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
  std::barrier turn(kThreads);  // all live at once: one that starts after another's end would take its place
  std::vector<std::thread> threads;
  for (size_t mine = 0; mine < kThreads; ++mine) {
    threads.emplace_back([&, mine] {
      for (size_t now = 0; now < kThreads; ++now) {
        turn.arrive_and_wait();
        if (now != mine) continue;
        fill();
        for (size_t i = now % 2; i < kCount; i += 2) blocks[i].reset();  // no two beside each other
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LT(ResidentMemory() - before, int64_t{kSmall} * kCount / 8);
}

}  // namespace
}  // namespace ingot::base
