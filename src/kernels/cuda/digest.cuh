// Hashes a tensor's slices by XXH3 (64 bits, no seed; the algorithm's specification is in the xxHash repository), as
// base::Checksum64 does on the CPU. Slices of kDigestSliceBytes have digests of their own (weights/tensor_checksum.h).
//
//   a stripe   64 bytes: eight words, each added to one of eight sums, and its product with a key to another
//   a block    16 stripes, whose sums do not depend on their order; then the sums are scrambled
//
// A warp has a slice. Four stripes are in flight: lane l has word l % 8 of stripe l / 8. All lanes with the same l % 8
// hold the same sum.
//
// Grid: x = slices / warps of a block.
#pragma once

#include "kernels/cuda/digest_args.h"

namespace ingot::kernels::cuda {

inline constexpr uint64_t kPrime1 = 0x9E3779B185EBCA87ull, kPrime2 = 0xC2B2AE3D27D4EB4Full,
                          kPrime3 = 0x165667B19E3779F9ull, kPrime4 = 0x85EBCA77C2B2AE63ull,
                          kPrime5 = 0x27D4EB2F165667C5ull;
inline constexpr uint32_t kShortPrime1 = 0x9E3779B1u, kShortPrime2 = 0x85EBCA77u, kShortPrime3 = 0xC2B2AE3Du;

// The sum that each of a stripe's words starts from.
__device__ __forceinline__ uint64_t FirstSum(int word) {
  switch (word) {
    case 0:
      return kShortPrime3;
    case 1:
      return kPrime1;
    case 2:
      return kPrime2;
    case 3:
      return kPrime3;
    case 4:
      return kPrime4;
    case 5:
      return kShortPrime2;
    case 6:
      return kPrime5;
    default:
      return kShortPrime1;
  }
}

__device__ __forceinline__ uint64_t Exchanged(uint64_t value, int distance) {
  return __shfl_xor_sync(0xffffffffu, value, distance);
}

// What a lane adds to its own word's sum, and to the neighbor's.
struct DigestSums {
  uint64_t own = 0, neighbor = 0;

  __device__ __forceinline__ void Add(uint64_t data, uint64_t key) {
    const uint64_t mixed = data ^ key;
    own += (mixed & 0xffffffffu) * (mixed >> 32);
    neighbor += data;
  }
  // Returns the sums of all lanes for each word.
  __device__ __forceinline__ uint64_t OfWord() const {
    uint64_t sum = own + Exchanged(neighbor, 1);
    sum += Exchanged(sum, 8);
    return sum + Exchanged(sum, 16);
  }
};

__device__ __forceinline__ uint64_t Scrambled(uint64_t sum, uint64_t key) {
  return (sum ^ sum >> 47 ^ key) * kShortPrime1;
}

// The keys of a lane's words in a block, and of its sum.
struct BlockKeys {
  uint64_t words[4], scramble;

  __device__ __forceinline__ BlockKeys(const uint64_t* keys, int lane) : scramble(keys[16 + lane % 8]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) words[i] = keys[4 * i + lane / 8 + lane % 8];
  }
};

// Adds `stripes` stripes of a block, at most 16. `at` is aligned to 8 bytes.
__device__ __forceinline__ uint64_t BlockSums(const uint8_t* at, int stripes, const BlockKeys& keys, int lane) {
  const int word = lane % 8;
  const auto* const words = reinterpret_cast<const uint64_t*>(at);
  DigestSums sums;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int stripe = 4 * i + lane / 8;
    if (stripe < stripes) sums.Add(words[8 * stripe + word], keys.words[i]);
  }
  return sums.OfWord();
}

// The last 64 bytes, which are even, but no multiple of 8 as address. One of the lanes with a word adds it.
__device__ __forceinline__ uint64_t LastSums(const uint8_t* at, const uint64_t* keys, int lane) {
  DigestSums sums;
  if (lane < 8) {
    const auto* const halves = reinterpret_cast<const uint16_t*>(at + 8 * lane);
    uint64_t data = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) data |= static_cast<uint64_t>(halves[i]) << (16 * i);
    sums.Add(data, keys[kDigestStripeKeys + lane]);
  }
  return sums.OfWord();
}

__device__ __forceinline__ uint64_t Avalanche(uint64_t hash) {
  hash = (hash ^ hash >> 37) * 0x165667919E3779F9ull;
  return hash ^ hash >> 32;
}

// Lane 2 i has the folded product of words 2 i and 2 i + 1. Every lane gets the digest.
__device__ __forceinline__ uint64_t Merged(uint64_t sum, int64_t size, const uint64_t* keys, int lane) {
  const uint64_t mixed = sum ^ keys[kDigestStripeKeys + kDigestLastKeys + lane % 8], other = Exchanged(mixed, 1);
  uint64_t folded = mixed * other ^ __umul64hi(mixed, other);
  folded += Exchanged(folded, 2);
  folded += Exchanged(folded, 4);
  return Avalanche(static_cast<uint64_t>(size) * kPrime1 + folded);
}

__global__ void __launch_bounds__(kDigestThreads) DigestKernel(const DigestArgs a) {
  constexpr int64_t kStripe = 64, kStripes = 16, kBlock = kStripe * kStripes;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t slice = static_cast<int64_t>(blockIdx.x) * (kDigestThreads / 32) + threadIdx.x / 32;
  const int64_t begin = slice * kDigestSliceBytes, left = a.size - begin;
  const int64_t size = left < kDigestSliceBytes ? left : kDigestSliceBytes;
  if (size < kDigestLeastBytes) return;
  const uint8_t* const bytes = a.bytes + begin;
  const BlockKeys keys(a.keys, lane);
  uint64_t sum = FirstSum(lane % 8);
  const int64_t blocks = (size - 1) / kBlock;
  for (int64_t block = 0; block < blocks; ++block) {
    sum += BlockSums(bytes + block * kBlock, kStripes, keys, lane);
    sum = Scrambled(sum, keys.scramble);
  }
  const int64_t done = blocks * kBlock;
  sum += BlockSums(bytes + done, static_cast<int>((size - 1 - done) / kStripe), keys, lane);
  sum += LastSums(bytes + size - kStripe, a.keys, lane);
  const uint64_t digest = Merged(sum, size, a.keys, lane);
  if (lane == 0) a.digests[slice] = digest;
}

}  // namespace ingot::kernels::cuda
