#include "trainer/pass/tensor_memory.h"

#include <ATen/ATen.h>
#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>

#include <random>
#include <thread>
#include <vector>

#include "base/process_memory.h"

namespace ingot::trainer {
namespace {

constexpr int64_t kMega = int64_t{1} << 20;

at::Tensor Filled(int64_t bytes, uint8_t value) { return at::empty({bytes}, at::kByte).fill_(value); }

bool IsFilled(const at::Tensor& t, uint8_t value) {
  const auto* data = t.const_data_ptr<uint8_t>();
  return std::all_of(data, data + t.numel(), [&](uint8_t byte) { return byte == value; });
}

class TensorMemoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    KeepTensorMemory();
    ReleaseTensorMemory();
  }
};

TEST_F(TensorMemoryTest, SeveralFreedBlocksMakeALargeOne) {
  std::vector<at::Tensor> parts;
  for (int i = 0; i < 4; ++i) parts.push_back(Filled(8 * kMega, 1));
  EXPECT_EQ(TensorMemoryNow().live, 32 * kMega);
  [[maybe_unused]] const int64_t resident = base::ResidentMemory();
  parts.clear();
  EXPECT_EQ(TensorMemoryNow().live, 0);
  EXPECT_EQ(TensorMemoryNow().cached, 32 * kMega);
  const at::Tensor whole = Filled(30 * kMega, 2);
  EXPECT_TRUE(IsFilled(whole, 2));
  EXPECT_EQ(TensorMemoryNow().cached, 2 * kMega);
  EXPECT_LT(base::ResidentMemory(), resident + kMega) << "pages were moved, none is new";
}

TEST_F(TensorMemoryTest, APartOfABlockServesASmallTensor) {
  Filled(64 * kMega, 1);
  const at::Tensor a = Filled(20 * kMega, 2), b = Filled(20 * kMega, 3), c = Filled(20 * kMega, 4);
  EXPECT_EQ(TensorMemoryNow().cached, 4 * kMega);
  EXPECT_TRUE(IsFilled(a, 2) && IsFilled(b, 3) && IsFilled(c, 4));
}

TEST_F(TensorMemoryTest, ReleaseReturnsTheCache) {
  const at::Tensor held = Filled(8 * kMega, 5);
  const int64_t before = base::ResidentMemory();
  Filled(64 * kMega, 1);
  EXPECT_GT(base::ResidentMemory(), before + 60 * kMega);
  ReleaseTensorMemory();
  EXPECT_LT(base::ResidentMemory(), before + 4 * kMega);
  EXPECT_EQ(TensorMemoryNow().cached, 0);
  EXPECT_TRUE(IsFilled(held, 5));
}

// Blocks of sizes that fit no earlier one are cut and assembled over and over. Each piece is a mapping; a process may
// have 65,530, also for its threads' stacks.
TEST_F(TensorMemoryTest, TheNumberOfPiecesIsBounded) {
  std::mt19937 random(1);
  std::vector<at::Tensor> held;
  int64_t bytes = 0;
  for (int i = 0; i < 20000; ++i) {
    const auto size = static_cast<int64_t>(random() % (i % 8 == 0 ? 512 * kMega : 40 * kMega)) + kMega;
    while (bytes + size > 12 * 1024 * kMega) {
      const size_t at = random() % held.size();
      bytes -= held[at].numel();
      held.erase(held.begin() + static_cast<std::ptrdiff_t>(at));
    }
    held.push_back(at::empty({size}, at::kByte));  // never touched: it has no pages
    bytes += size;
    ASSERT_LT(TensorMemoryNow().pieces, 12000) << i;
  }
}

TEST_F(TensorMemoryTest, OfferedMemoryServesAsBefore) {
  Filled(32 * kMega, 1);
  OfferTensorMemory();
  const at::Tensor again = Filled(32 * kMega, 2);
  EXPECT_TRUE(IsFilled(again, 2));
  EXPECT_EQ(TensorMemoryNow().cached, 0);
}

TEST_F(TensorMemoryTest, FreesMemoryOfTheEarlierAllocator) {
  c10::Allocator* const now = c10::GetCPUAllocator();
  now->raw_deallocate(c10::GetDefaultCPUAllocator()->raw_allocate(4 * kMega));
  void* const data = now->raw_allocate(4 * kMega);
  EXPECT_EQ(TensorMemoryNow().live, 4 * kMega);
  now->raw_deallocate(data);
  EXPECT_EQ(TensorMemoryNow().live, 0);
}

// Tensors of any size come and go on several threads. No two overlap, and memory never exceeds the greatest amount in
// use.
TEST_F(TensorMemoryTest, TensorsNeverOverlapAndMemoryStaysBounded) {
  constexpr int kThreads = 3;
  constexpr int64_t kMax = 48 * kMega;  // of a thread
  [[maybe_unused]] const int64_t resident = base::ResidentMemory();
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([thread] {
      std::mt19937 random(static_cast<unsigned>(thread));
      std::vector<std::pair<at::Tensor, uint8_t>> held;
      int64_t bytes = 0;
      for (int i = 0; i < 400; ++i) {
        const auto size = static_cast<int64_t>(random() % (i % 10 == 0 ? 30 * kMega : 5 * kMega)) + 1;
        while (bytes + size > kMax || (!held.empty() && random() % 3 == 0)) {
          const size_t at = random() % held.size();
          ASSERT_TRUE(IsFilled(held[at].first, held[at].second)) << "thread " << thread << ", round " << i;
          bytes -= held[at].first.numel();
          held.erase(held.begin() + static_cast<std::ptrdiff_t>(at));
        }
        const auto value = static_cast<uint8_t>(random());
        held.emplace_back(Filled(size, value), value);
        bytes += size;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const TensorMemory memory = TensorMemoryNow();
  EXPECT_EQ(memory.live, 0);
  EXPECT_LE(memory.cached, kThreads * (kMax + kMax / 4));            // sizes are rounded up
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // whose shadows of what was held stay resident
  base::ResetPeakMemory();                                           // gives back what small tensors left on the heap
  EXPECT_LT(base::ResidentMemory() - resident, memory.cached + 24 * kMega);
#endif
}

}  // namespace
}  // namespace ingot::trainer
