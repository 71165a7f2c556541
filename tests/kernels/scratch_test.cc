#include "kernels/scratch.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <cstring>
#include <vector>

namespace ingot::kernels::tiles {
namespace {

TEST(Scratch, IsAlignedAndHasTheRequestedSize) {
  for (const int64_t count : {0, 1, 63, 64, 65, 100000, 3000000}) {
    const Scratch<float> scratch(count);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(scratch.get()) % 64, 0u);
    std::memset(scratch.get(), 1, static_cast<size_t>(count) * sizeof(float));
  }
}

TEST(Scratch, BlocksInUseAreApart) {
  std::vector<Scratch<char>> blocks;
  for (int round = 0; round < 3; ++round) {
    blocks.clear();
    for (int i = 0; i < 40; ++i) {
      blocks.emplace_back(1000 * (i + 1));
      std::memset(blocks.back().get(), i, static_cast<size_t>(1000 * (i + 1)));
    }
    for (int i = 0; i < 40; ++i) {
      for (int64_t at = 0; at < 1000 * (i + 1); ++at) ASSERT_EQ(blocks[static_cast<size_t>(i)].get()[at], i);
    }
  }
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // sanitizers' builds keep no blocks
TEST(Scratch, AThreadReusesItsReturnedBlocks) {
  const void* first = Scratch<char>(1 << 20).get();
  EXPECT_EQ(Scratch<char>(1 << 20).get(), first);
  EXPECT_EQ(Scratch<char>((1 << 20) - 5000).get(), first);
  EXPECT_NE(Scratch<char>(1 << 10).get(), first) << "a block far too large";
}

// The kept memory is bounded, whatever blocks come and go.
TEST(Scratch, KeptMemoryIsBounded) {
  const auto in_use = [] {
    const struct mallinfo2 info = mallinfo2();
    return static_cast<int64_t>(info.uordblks + info.hblkhd);
  };
  const int64_t before = in_use();
  for (int round = 0; round < 20; ++round) {
    std::vector<Scratch<char>> blocks;
    for (int i = 1; i <= 20; ++i) blocks.emplace_back((i * 7 + round) * 50000);
    for (int i = 1; i <= 3; ++i) blocks.emplace_back(i * 8'000'000);
  }
  EXPECT_LE(in_use() - before, (8 << 20) + (1 << 16));
}
#endif

}  // namespace
}  // namespace ingot::kernels::tiles
