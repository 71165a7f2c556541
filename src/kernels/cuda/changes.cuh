// Gathers a tensor's changed elements, which the optimizer marked (adamw.cuh), so that the host receives only these:
//
//   CountChangesKernel    the sizes of each block's lists
//   ScanChangesKernel     where each block's lists begin
//   GatherChangesKernel   the lists, for a range of blocks
//
//   counts   a byte per group of 64 elements: its number of changes, 0 to 64
//   places   per group, in order: fewer than kChangesListed changes as a byte each, the element's index in the group; more
//            as the group's marks, 8 bytes, little-endian
//   values   the new values of the changed elements, in order
//
// A change costs a byte more than its value if changes are few, and a group never more than its marks and a byte. The
// lists of a group do not depend on other groups, and every byte has one writer.
//
// Grid: x = ChangesMarks::blocks() to count, 1 to scan, the number of blocks to gather. A thread has a group.
#pragma once

#include "kernels/cuda/changes_args.h"

namespace ingot::kernels::cuda {

inline constexpr uint32_t kAllLanes = 0xffffffffu;

// Returns a group's marks. 0 after the last group.
__device__ __forceinline__ uint64_t MarksOf(const ChangesMarks& m, int64_t group) {
  const int64_t left = m.count - group * kChangesGroup;
  if (left <= 0) return 0;
  const uint64_t marks = m.entries[group];
  return left >= kChangesGroup ? marks : marks & ((uint64_t{1} << left) - 1);
}

__device__ __forceinline__ ChangesSize SizeOf(uint64_t marks) {
  const int count = __popcll(marks);
  return static_cast<uint64_t>(count) << 32 | static_cast<uint64_t>(count < kChangesListed ? count : kChangesListed);
}

// Returns the sum of `own` over the block's earlier threads, and sets `all` to the sum over the block. `warps` is shared
// memory for a number per warp, which no thread uses any more.
template <int kThreads>
__device__ __forceinline__ ChangesSize SumBefore(ChangesSize own, ChangesSize* warps, ChangesSize& all) {
  constexpr int kWarps = kThreads / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  ChangesSize sum = own;
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) {
    const ChangesSize before = __shfl_up_sync(kAllLanes, sum, distance);
    if (lane >= distance) sum += before;
  }
  if (lane == 31) warps[warp] = sum;
  __syncthreads();
  ChangesSize earlier = 0;
  all = 0;
#pragma unroll
  for (int i = 0; i < kWarps; ++i) {
    const ChangesSize of = warps[i];
    if (i < warp) earlier += of;
    all += of;
  }
  return earlier + sum - own;
}

__global__ void __launch_bounds__(kChangesThreads) CountChangesKernel(const CountChangesArgs a) {
  __shared__ ChangesSize warps[kChangesThreads / 32];
  const int64_t group = static_cast<int64_t>(blockIdx.x) * kChangesThreads + threadIdx.x;
  ChangesSize all;
  SumBefore<kChangesThreads>(SizeOf(MarksOf(a.marks, group)), warps, all);
  if (threadIdx.x == 0) a.sizes[blockIdx.x] = all;
}

__global__ void __launch_bounds__(kChangesScanThreads) ScanChangesKernel(const ScanChangesArgs a) {
  __shared__ ChangesSize warps[kChangesScanThreads / 32];
  ChangesSize before = 0;
  for (int64_t first = 0; first < a.blocks; first += kChangesScanThreads) {
    const int64_t block = first + threadIdx.x;
    const ChangesSize own = block < a.blocks ? a.sizes[block] : 0;
    ChangesSize all;
    const ChangesSize earlier = SumBefore<kChangesScanThreads>(own, warps, all);
    if (block < a.blocks) a.sizes[block] = before + earlier;
    before += all;
    __syncthreads();  // before `warps` is written again
  }
  if (threadIdx.x == 0) a.sizes[a.blocks] = before;
}

// Writes a group's lists, by a warp. `start` is where they begin.
template <typename Element>
__device__ __forceinline__ void WriteGroup(const GatherChangesArgs& a, int64_t group, uint64_t marks,
                                           ChangesSize start) {
  const int lane = static_cast<int>(threadIdx.x) % 32, count = __popcll(marks);
  const int64_t value = static_cast<int64_t>(start >> 32), place = static_cast<int64_t>(start & 0xffffffffu);
  const Element* const from = static_cast<const Element*>(a.elements) + group * kChangesGroup;
#pragma unroll
  for (int bit = lane; bit < kChangesGroup; bit += 32) {
    if ((marks >> bit & 1) == 0) continue;
    const int rank = __popcll(marks & ((uint64_t{1} << bit) - 1));
    if (value + rank < a.values_limit) static_cast<Element*>(a.values)[value + rank] = from[bit];
    if (count < kChangesListed && place + rank < a.places_limit) a.places[place + rank] = static_cast<uint8_t>(bit);
  }
  if (count < kChangesListed || lane >= kChangesListed || place + lane >= a.places_limit) return;
  a.places[place + lane] = static_cast<uint8_t>(marks >> (8 * lane));
}

template <typename Element>
__global__ void __launch_bounds__(kChangesThreads) GatherChangesKernel(const GatherChangesArgs a) {
  __shared__ ChangesSize warps[kChangesThreads / 32];
  const int64_t block = a.first + blockIdx.x, group = block * kChangesThreads + threadIdx.x;
  const uint64_t marks = MarksOf(a.marks, group);
  ChangesSize all;
  const ChangesSize start = a.starts[block] - a.starts[a.first] + SumBefore<kChangesThreads>(SizeOf(marks), warps, all);
  if (group < a.marks.groups()) a.counts[group - a.first * kChangesThreads] = static_cast<uint8_t>(__popcll(marks));
  const int64_t of_lane_0 = group - threadIdx.x % 32;
  for (uint32_t left = __ballot_sync(kAllLanes, marks != 0); left != 0; left &= left - 1) {
    const int lane = __ffs(static_cast<int>(left)) - 1;
    WriteGroup<Element>(a, of_lane_0 + lane, __shfl_sync(kAllLanes, marks, lane), __shfl_sync(kAllLanes, start, lane));
  }
}

}  // namespace ingot::kernels::cuda
