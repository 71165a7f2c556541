// Arguments for the CUDA kernel that hashes a tensor's slices (digest.cuh): plain values and device pointers.
#pragma once

#include <cstdint>

namespace ingot::kernels::cuda {

inline constexpr int kDigestThreads = 128;                      // a warp per slice
inline constexpr int64_t kDigestSliceBytes = int64_t{1} << 17;  // as weights::kSliceBytes
inline constexpr int64_t kDigestLeastBytes = 241;               // XXH3 hashes shorter inputs in another way

// Words of XXH3's secret (base::ChecksumSecret), little-endian, at the offsets where its steps read them.
inline constexpr int kDigestStripeKeys =
    24;                                     // at 8 i: stripe s of a block reads from s on, and its scramble from 16 on
inline constexpr int kDigestLastKeys = 8;   // at 121 + 8 i: of the last stripe
inline constexpr int kDigestMergeKeys = 8;  // at 11 + 8 i
inline constexpr int kDigestKeys = kDigestStripeKeys + kDigestLastKeys + kDigestMergeKeys;

struct DigestArgs {
  const uint8_t* bytes;  // [size], a multiple of 8 as address
  int64_t size;          // even
  uint64_t* digests;     // [slices()]: the XXH3 of each slice; not written for a slice of less than kDigestLeastBytes
  const uint64_t* keys;  // [kDigestKeys]

  int64_t slices() const { return (size + kDigestSliceBytes - 1) / kDigestSliceBytes; }
};

}  // namespace ingot::kernels::cuda
