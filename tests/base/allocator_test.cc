// process_memory.h in a program that is linked with jemalloc, as `ingot` is.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
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

}  // namespace
}  // namespace ingot::base
