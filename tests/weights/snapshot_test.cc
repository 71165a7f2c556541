#include "weights/snapshot.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <span>
#include <utility>

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

// A tensor of random bytes, another version of it, and the patch between them.
struct Changed {
  std::string before, after;
  std::vector<uint64_t> marks;
  std::vector<std::byte> values;

  Changed(uint64_t seed, int64_t elements, int64_t element_bytes, double share)
      : before(static_cast<size_t>(elements * element_bytes), '\0'), marks(static_cast<size_t>((elements + 63) / 64)) {
    std::mt19937_64 rng(seed);
    for (char& byte : before) byte = static_cast<char>(rng());
    after = before;
    std::bernoulli_distribution changes(share);
    for (int64_t i = 0; i < elements; ++i) {
      if (!changes(rng)) continue;
      marks[static_cast<size_t>(i / 64)] |= uint64_t{1} << (i % 64);
      for (int64_t byte = i * element_bytes; byte < (i + 1) * element_bytes; ++byte) {
        if (i % 5 != 0) after[static_cast<size_t>(byte)] = static_cast<char>(rng());  // others are marked, but equal
        values.push_back(static_cast<std::byte>(after[static_cast<size_t>(byte)]));
      }
    }
  }
};

std::span<const std::byte> BytesOf(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

TEST(Snapshot, APatchGivesTheBytesOfACopy) {
  // A slice has 65,536 words: less than one, one, and parts of several.
  for (const int64_t elements : {1, 63, 65, 65536, 65537, 200000}) {
    for (const auto& [dtype, bytes] : {std::pair("BF16", 2), std::pair("F32", 4)}) {
      for (const double share : {0.0, 0.01, 0.5, 1.0}) {
        const Changed t(static_cast<uint64_t>(elements + bytes), elements, bytes, share);
        TensorView view{"t", dtype, {elements}, BytesOf(t.before)};
        view.patch = TensorPatch{t.marks, t.values};
        const auto patched = Snapshot::Copy(2, {view}),
                   whole = Snapshot::Copy(2, {{"t", dtype, {elements}, BytesOf(t.after)}});
        ASSERT_TRUE(patched.ok()) << patched.status();
        EXPECT_TRUE(testing::SameWeights(**patched, **whole)) << elements << " " << dtype << " " << share;
        EXPECT_EQ((*patched)->checksum(), (*whole)->checksum());
      }
    }
  }
}

TEST(Snapshot, RejectsAPatchOfAnotherSize) {
  const Changed t(3, 100, 2, 0.3);
  const auto error = [&](std::span<const uint64_t> marks, std::span<const std::byte> values) {
    TensorView view{"name", "BF16", {100}, BytesOf(t.before)};
    view.patch = TensorPatch{marks, values};
    return Snapshot::Copy(2, {view}).status();
  };
  const std::span<const uint64_t> marks = t.marks;
  const std::span<const std::byte> values = t.values;
  EXPECT_TRUE(error(marks, values).ok());
  std::vector<uint64_t> past_end = t.marks;
  past_end[1] |= uint64_t{1} << 36;
  std::vector<std::byte> more = t.values;
  more.resize(more.size() + 2);
  for (const absl::Status& status : {error(marks.first(1), values), error(marks, values.first(values.size() - 2)),
                                     error(marks, more), error(past_end, more), error({}, {})}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find("the patch of tensor 'name' has "), std::string::npos) << status;
  }
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
