// The coding of the changed words in one slice of a bf16 tensor: where they are, and how far they moved.
//
// A distance counts the representable numbers between the old word and the new one. Bit patterns are numbered in the
// order of the floats, from the negative NaNs to the positive ones, -0 just below +0; the distance is the difference of
// two numbers modulo 2^16. So every pattern can become any other, and small steps of the optimizer are distances of
// one or two, also near zero.
//
//   slice     varint count of changed words (>= 1), gaps, signs, lengths
//   gaps      stream of bytes: a word's gap is the number of words since the changed one before it, or since the start
//             of the slice; 255 adds 255 and continues with the next byte
//   signs     (count + 7) / 8 bytes: bit i % 8 of byte i / 8 is set if change i goes down
//   lengths   stream of bytes: |distance| - 1; 255 is followed by two bytes, little-endian
//   stream    varint bytes, varint stored: bytes that follow, one zstd frame; 0 = they follow as they are
//
// Signs are random bits, and each stream has its own statistics: together they would compress worse. The decoder checks
// every count, size and position, and writes nothing outside its slice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "weights/zstd_frame.h"

namespace ingot::weights {

// Not thread safe: it reuses its memory and its zstd context.
class UlpEncoder {
 public:
  // `vectors`: use vectors of 64 bytes if the processor can compress bytes (AVX512-VBMI2). The output is the same.
  explicit UlpEncoder(int zstd_level, bool vectors = true) : level_(zstd_level), vectors_(vectors && HasVectors()) {}

  static bool HasVectors();

  // Appends the changes among `words` words, or nothing if there are none; returns their number. `marks`: the entries
  // of a ChangeMask from the slice's first word on; null = all words are compared.
  int64_t Encode(const std::byte* base, const std::byte* target, int64_t words, const uint64_t* marks,
                 std::string& out);

 private:
  // Fills gaps_, signs_ and lengths_; returns the number of changes.
  int64_t Collect(const std::byte* base, const std::byte* target, int64_t words, std::span<const uint64_t> entries);
  void AppendStream(std::span<const std::byte> bytes, std::string& out);

  const int level_;
  const bool vectors_;
  ZstdFrame zstd_;
  std::vector<uint64_t> compared_;
  std::vector<std::byte> gaps_, signs_, lengths_;
  size_t gap_bytes_ = 0, length_bytes_ = 0;
};

// Not thread safe: it reuses its memory and its zstd context.
class UlpDecoder {
 public:
  // Moves the changed words of `words`, which holds the base's. DATA_LOSS: the slice is damaged; `words` may be changed
  // in part.
  absl::Status Decode(std::string_view slice, std::span<std::byte> words);

 private:
  // Takes a stream of at most `limit` bytes off `slice`. The result lies in `slice` or in `unpacked`.
  absl::StatusOr<std::string_view> TakeStream(std::string_view& slice, size_t limit, std::vector<std::byte>& unpacked);

  ZstdFrame zstd_;
  std::vector<std::byte> gaps_, lengths_;
};

// Appends seven bits a byte, the lowest first.
void AppendVarint(uint64_t value, std::string& out);
// Takes one off `bytes`. DATA_LOSS: it is truncated or longer than 64 bits.
absl::StatusOr<uint64_t> TakeVarint(std::string_view& bytes);

}  // namespace ingot::weights
