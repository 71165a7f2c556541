// Encodes the changed words in one slice of a bf16 tensor: their positions and distances.
//
// A distance counts the representable values from the old word to the new one. Bit patterns are numbered in
// floating-point order, from the negative NaNs to the positive ones, with -0 just below +0. The distance is the
// difference between two of these numbers modulo 2^16. So any pattern can change to any other, and small optimizer
// steps are distances of one or two, even near zero.
//
//   slice     varint count of changed words (>= 1), gaps, signs, lengths
//   gaps      stream of bytes: a word's gap is the number of words since the previous changed one, or since the start
//             of the slice; 255 adds 255 and continues with the next byte
//   signs     (count + 7) / 8 bytes: bit i % 8 of byte i / 8 is set if change i is negative
//   lengths   stream of bytes: |distance| - 1; 255 is followed by two bytes, little-endian
//   stream    varint bytes, varint stored: bytes that follow, one zstd frame; 0 = they follow uncompressed
//
// Signs are nearly random, and each stream has its own statistics, so a combined stream would compress worse. The
// decoder checks every count, size, and position, and writes only within its slice.
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

// Not thread safe, because it reuses its memory and its zstd context.
class UlpEncoder {
 public:
  // `vectors` = uses 64-byte vectors if the CPU can compress bytes (AVX512-VBMI2). The output is the same either way.
  explicit UlpEncoder(int zstd_level, bool vectors = true) : level_(zstd_level), vectors_(vectors && HasVectors()) {}

  static bool HasVectors();

  // Appends the changes among `words` words, or nothing if there are none. Returns the number of changes. `marks` are
  // the entries of a ChangeMask, starting at the slice's first word. Null = compare all words.
  int64_t Encode(const std::byte* base, const std::byte* target, int64_t words, const uint64_t* marks,
                 std::string& out);

 private:
  // Fills gaps_, signs_, and lengths_. Returns the number of changes.
  int64_t Collect(const std::byte* base, const std::byte* target, int64_t words, std::span<const uint64_t> entries);
  void AppendStream(std::span<const std::byte> bytes, std::string& out);

  const int level_;
  const bool vectors_;
  ZstdFrame zstd_;
  std::vector<uint64_t> compared_;
  std::vector<std::byte> gaps_, signs_, lengths_;
  size_t gap_bytes_ = 0, length_bytes_ = 0;
};

// Not thread safe, because it reuses its memory and its zstd context.
class UlpDecoder {
 public:
  // Updates the changed words in `words`, which contains the base's words. Returns DATA_LOSS if the slice is damaged;
  // `words` may then be partly changed.
  absl::Status Decode(std::string_view slice, std::span<std::byte> words);

 private:
  // Removes a stream of at most `limit` bytes from the front of `slice`. The result points into `slice` or `unpacked`.
  absl::StatusOr<std::string_view> TakeStream(std::string_view& slice, size_t limit, std::vector<std::byte>& unpacked);

  ZstdFrame zstd_;
  std::vector<std::byte> gaps_, lengths_;
};

// Appends seven bits per byte, lowest first.
void AppendVarint(uint64_t value, std::string& out);
// Removes a varint from the front of `bytes`. Returns DATA_LOSS if it is truncated or longer than 64 bits.
absl::StatusOr<uint64_t> TakeVarint(std::string_view& bytes);

}  // namespace ingot::weights
