// Computes the checksum of a tensor's bytes in a version (TensorInfo.checksum). Slices of kSliceBytes are hashed
// separately, possibly on several threads or while they are being written. The checksum covers their digests, in order.
//
//   one slice     Checksum64 of the bytes
//   more          Checksum64 of the slices' Checksum64, each as eight bytes, little-endian
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/checksum.h"

namespace ingot::weights {

inline constexpr int64_t kSliceBytes = int64_t{1} << 17;

// Returns the number of slices in a tensor with `bytes` bytes, at least one.
inline int64_t SlicesOf(int64_t bytes) { return std::max<int64_t>((bytes + kSliceBytes - 1) / kSliceBytes, 1); }

// Combines the digests of all slices of a tensor, at least one.
uint64_t CombineSlices(std::span<const uint64_t> digests);

uint64_t TensorChecksum(std::span<const std::byte> bytes);

// Computes TensorChecksum over a sequence of pieces of any size.
class StreamingTensorChecksum {
 public:
  void Update(std::span<const std::byte> bytes);
  // Call only once.
  uint64_t Finish();

 private:
  void Close();

  std::optional<base::StreamingChecksum> slice_{std::in_place};
  int64_t in_slice_ = 0;  // bytes in the current slice
  std::vector<uint64_t> digests_;
};

}  // namespace ingot::weights
