#include "weights/snapshot.h"

#include <gtest/gtest.h>

#include <limits>

#include "weights/make_snapshot.h"

namespace ingot::weights {
namespace {

using testing::Tensors;

absl::StatusCode CopyCode(Tensors& tensors) {
  for (size_t i = 0; i < tensors.views.size(); ++i) {
    tensors.views[i].bytes = std::as_bytes(std::span<const char>(tensors.bytes[i].data(), tensors.bytes[i].size()));
  }
  return Snapshot::Copy(1, tensors.views).status().code();
}

TEST(Snapshot, OrdersTensorsByNameAndAlignsThem) {
  Tensors tensors;
  tensors.Add("b", "BF16", {3}, "abcdef");
  tensors.Add("a", "F32", {1, 2}, "12345678");
  const auto snapshot = tensors.TakeSnapshot(7);
  EXPECT_EQ(snapshot->version(), 7);
  EXPECT_EQ(snapshot->total_bytes(), 14);
  EXPECT_EQ(snapshot->view(0).name, "a");
  EXPECT_EQ(snapshot->view(1).shape, std::vector<int64_t>{3});
  EXPECT_EQ(std::memcmp(snapshot->bytes(1).data(), "abcdef", 6), 0);
  for (size_t i = 0; i < snapshot->size(); ++i) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(snapshot->bytes(i).data()) % 64, 0u);
  }
}

TEST(Snapshot, ChecksumNamesTheWeightsNotTheVersion) {
  Tensors tensors;
  tensors.Add("a", "F32", {2}, "12345678");
  const uint64_t checksum = tensors.TakeSnapshot(1)->checksum();
  EXPECT_EQ(tensors.TakeSnapshot(2)->checksum(), checksum);
  tensors.bytes[0][3] ^= 1;
  EXPECT_NE(tensors.TakeSnapshot(1)->checksum(), checksum);
  tensors.bytes[0][3] ^= 1;
  tensors.views[0].shape = {1, 2};
  EXPECT_NE(tensors.TakeSnapshot(1)->checksum(), checksum);
}

TEST(Snapshot, RejectsTensorsThatAreNoModel) {
  const auto code = [](const std::string& dtype, std::vector<int64_t> shape, const std::string& bytes) {
    Tensors tensors;
    tensors.Add("a", dtype, std::move(shape), bytes);
    return CopyCode(tensors);
  };
  EXPECT_EQ(code("F32", {2}, "12345678"), absl::StatusCode::kOk);
  EXPECT_EQ(code("F32", {0, 5}, ""), absl::StatusCode::kOk);
  EXPECT_EQ(code("F32", {2}, "1234567"), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code("I64", {1}, "12345678"), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code("F32", {-1, -2}, "12345678"), absl::StatusCode::kInvalidArgument);
  const int64_t big = int64_t{1} << 40;
  EXPECT_EQ(code("F32", {big, big}, ""), absl::StatusCode::kInvalidArgument);  // 2^80 elements wrap to 0

  Tensors twice;
  twice.Add("a", "F32", {1}, "1234");
  twice.Add("a", "F32", {1}, "5678");
  EXPECT_EQ(CopyCode(twice), absl::StatusCode::kInvalidArgument);
}

TEST(Snapshot, AdoptNamesTheTensorThatDiffers) {
  Tensors tensors;
  tensors.Add("good", "F32", {1}, "1234");
  tensors.Add("late", "F32", {1}, "5678");
  const auto snapshot = tensors.TakeSnapshot(1);
  std::vector<std::shared_ptr<std::byte[]>> buffers;
  for (size_t i = 0; i < 2; ++i) {
    buffers.push_back(AllocateBuffer(4).value());
    std::memcpy(buffers[i].get(), snapshot->bytes(i).data(), 4);
  }
  EXPECT_TRUE(testing::SameWeights(**Snapshot::Adopt(snapshot->manifest(), buffers), *snapshot));
  buffers[1][2] ^= std::byte{4};
  const auto damaged = Snapshot::Adopt(snapshot->manifest(), buffers);
  EXPECT_EQ(damaged.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_NE(std::string(damaged.status().message()).find("late"), std::string::npos);
  buffers.pop_back();
  EXPECT_EQ(Snapshot::Adopt(snapshot->manifest(), buffers).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(BufferPool, TwoBuffersTradePlaces) {
  BufferPool pool;
  Tensors tensors;
  tensors.Add("a", "F32", {1}, "1234");
  tensors.Add("b", "F32", {2}, "12345678");
  const auto take = [&](int64_t version) {
    return Snapshot::Copy(version, tensors.Views(), {.buffers = &pool}).value();
  };
  auto first = take(1);
  const auto* const memory = first->bytes(1).data();
  auto second = take(2);
  EXPECT_NE(second->bytes(1).data(), memory) << "the first is still read";
  EXPECT_EQ(pool.free_bytes(), 0);
  first = nullptr;
  EXPECT_EQ(pool.free_bytes(), 12);
  tensors.bytes[1] = "abcdefgh";
  first = take(3);
  EXPECT_EQ(first->bytes(1).data(), memory);
  EXPECT_TRUE(testing::SameWeights(*first, *tensors.TakeSnapshot(3)));
  EXPECT_EQ(second->bytes(1)[0], std::byte{'1'}) << "a version that is read stays as it is";
  EXPECT_EQ(pool.free_bytes(), 0);
}

TEST(BufferPool, KeepsOneFreeBufferForEachTakenOne) {
  auto pool = std::make_unique<BufferPool>();
  std::vector<std::shared_ptr<std::byte[]>> taken;
  for (int i = 0; i < 8; ++i) taken.push_back(pool->Acquire(100).value());
  taken.resize(2);
  EXPECT_EQ(pool->free_bytes(), 400) << "kept while fewer are free than taken";
  pool->Clear();
  EXPECT_EQ(pool->free_bytes(), 0);
  const auto last = pool->Acquire(100).value();
  pool = nullptr;  // its buffers may outlive it
  last[99] = std::byte{1};
}

}  // namespace
}  // namespace ingot::weights
