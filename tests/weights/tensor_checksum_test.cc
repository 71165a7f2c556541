#include "weights/tensor_checksum.h"

#include <gtest/gtest.h>

#include <random>

#include "weights/make_snapshot.h"

namespace ingot::weights {
namespace {

std::span<const std::byte> Bytes(const std::string& text) {
  return std::as_bytes(std::span<const char>(text.data(), text.size()));
}

TEST(TensorChecksum, IsTheSameHoweverTheBytesArrive) {
  std::mt19937_64 rng(3);
  const size_t slice = kSliceBytes;
  for (const size_t size : {size_t{0}, size_t{1}, slice - 1, slice, slice + 1, 2 * slice, 3 * slice + 17}) {
    const std::string bytes = testing::RandomBytes(rng, size);
    const uint64_t expected = TensorChecksum(Bytes(bytes));
    for (const size_t piece : {size_t{100}, size_t{4096}, slice, 2 * slice, slice + 5}) {
      StreamingTensorChecksum sum;
      for (size_t at = 0; at < size; at += piece) sum.Update(Bytes(bytes).subspan(at, std::min(piece, size - at)));
      EXPECT_EQ(sum.Finish(), expected) << size << " bytes in pieces of " << piece;
    }
    std::vector<uint64_t> digests;
    for (int64_t i = 0; i < SlicesOf(static_cast<int64_t>(size)); ++i) {
      const size_t at = static_cast<size_t>(i) * slice;
      digests.push_back(base::Checksum64(Bytes(bytes).subspan(at, std::min(slice, size - at))));
    }
    EXPECT_EQ(CombineSlices(digests), expected);
  }
}

TEST(TensorChecksum, SeesABitTheOrderOfSlicesAndALength) {
  std::mt19937_64 rng(4);
  const size_t slice = kSliceBytes;
  const std::string bytes = testing::RandomBytes(rng, 2 * slice + 1);
  const uint64_t sum = TensorChecksum(Bytes(bytes));
  for (const size_t at : {size_t{0}, slice, 2 * slice}) {
    std::string other = bytes;
    other[at] ^= 1;
    EXPECT_NE(TensorChecksum(Bytes(other)), sum) << at;
  }
  EXPECT_NE(TensorChecksum(Bytes(bytes.substr(slice, slice) + bytes.substr(0, slice) + bytes.substr(2 * slice))), sum);
  EXPECT_NE(TensorChecksum(Bytes(bytes.substr(0, 2 * slice))), sum);
  EXPECT_NE(TensorChecksum(Bytes(std::string(slice, '\0'))), TensorChecksum(Bytes(std::string(2 * slice, '\0'))));
}

}  // namespace
}  // namespace ingot::weights
