// Draws a token from each row with the race of kernels/draws/race.h. Returns the CPU's winner for every input.
//
// No winner is decided in fp32. Every entry has bounds of its time in fp32. An entry whose lower bound is above another
// entry's upper bound has lost. The others, nearly always one, are compared by the CPU's own arithmetic in fp64
// (draws/race_time.h).
//
// DrawKernel. Grid: x = row, y = part of kDrawPart entries. Most entries are skipped by a single comparison: since
// -ln U > 1 - U, an entry has lost if 1 - U > e^(entry + bound), where `bound` is another entry's upper bound. For the
// others, a thread computes the time in fp32. It remembers its smallest two, and visits its entries again if both may
// win. Parts are compared by DrawWinnerKernel. A minimum does not depend on the order, so neither do the results.
//
// Reads 4 bytes per entry, once.
#pragma once

#include <cfloat>
#include <climits>

#include "kernels/cuda/draw_args.h"
#include "kernels/cuda/ptx.cuh"
#include "kernels/draws/race_time.h"

namespace ingot::kernels::cuda {

constexpr int kDrawThreads = 256;

struct DrawMemory {
  float bound[kDrawThreads / 32];
  DrawBest best[kDrawThreads / 32];
};

// The part of a row that a block reads.
struct DrawPart {
  const float* row;
  uint64_t key;  // of the hashes
  RaceCut cut;
  int64_t begin, end;

  __device__ bool Keeps(int64_t place, float x) const { return place < cut.split ? x >= cut.floor : x > cut.floor; }
};

__device__ __forceinline__ DrawPart PlacePart(const DrawArgs& a) {
  const int64_t row = blockIdx.x, begin = static_cast<int64_t>(blockIdx.y) * kDrawPart;
  return {a.log_weights + row * a.count, inner::Mix64(a.seeds[row]),
          a.cuts == nullptr ? RaceCut{-FLT_MAX, LLONG_MAX} : a.cuts[row], begin, min(begin + kDrawPart, a.count)};
}

// The distance between a time in fp32 and the exact one is less than this. -ln U has a relative error of a few 2^-24, so
// its logarithm, of at most 46, has an error below 2^-17. Subtracting the entry rounds once.
__device__ __forceinline__ float Slack(float time) { return 0x1p-15f + fabsf(time) * 0x1p-22f; }
__device__ __forceinline__ float Lower(float time) { return time - Slack(time); }
__device__ __forceinline__ float Upper(float time) { return time + Slack(time); }

// Returns LogTime(hash) in fp32.
__device__ __forceinline__ float NearLogTime(uint64_t hash) {
  const bool low = hash >> 63 == 0;
  const float distance = (__ull2float_rn(low ? hash : ~hash) + 0.5f) * 0x1p-64f;
  return logf(low ? -logf(distance) : -log1pf(-distance));
}

// Returns false only if the exact time is above `bound`. (1 - U) 2^31 is rounded down, and the margin of 2^-11 covers
// the rounding of the power.
__device__ __forceinline__ bool MayWin(uint64_t hash, float x, float bound) {
  const float complement = static_cast<float>(static_cast<int32_t>(~hash >> 33));
  const float exponent = fminf(0.0f, x + bound) * 1.4426950f;
  return complement <= ptx::ApproximateExp2(exponent + (31 + 0x1p-11f));
}

__device__ __forceinline__ float WarpMin(float x) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) x = fminf(x, __shfl_xor_sync(0xffffffffu, x, step));
  return x;
}

// If times are equal, the smaller place wins.
__device__ __forceinline__ bool Wins(const DrawBest& a, const DrawBest& b) {
  if (a.place < 0 || b.place < 0) return a.place > b.place;
  return a.log_time < b.log_time || (a.log_time == b.log_time && a.place < b.place);
}

__device__ __forceinline__ DrawBest WarpBest(DrawBest best) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) {
    const DrawBest other{__shfl_xor_sync(0xffffffffu, best.log_time, step),
                         __shfl_xor_sync(0xffffffffu, best.place, step)};
    if (Wins(other, best)) best = other;
  }
  return best;
}

// A thread's smallest two times in fp32, and the place of the smallest.
struct NearBest {
  float first = INFINITY, second = INFINITY;
  int64_t place = -1;

  __device__ __forceinline__ void Consider(float time, int64_t at) {
    if (time < first) {
      second = first;
      first = time;
      place = at;
    } else {
      second = fminf(second, time);
    }
  }
};

// Finds the times in fp32 of the thread's entries that may win.
__device__ __forceinline__ NearBest Scan(const DrawPart& part) {
  NearBest near;
  float bound = FLT_MAX;  // the smallest upper bound of the warp's entries so far
  for (int64_t base = part.begin; base < part.end; base += kDrawThreads) {
    const int64_t place = base + threadIdx.x;
    const float x = place < part.end ? part.row[place] : NAN;
    const uint64_t hash = inner::HashOf(part.key, place);
    const bool able = part.Keeps(place, x) && MayWin(hash, x, bound);
    if (!__any_sync(0xffffffffu, able)) continue;
    const float time = able ? NearLogTime(hash) - x : INFINITY;
    if (able) near.Consider(time, place);
    bound = fminf(bound, Upper(WarpMin(time)));
  }
  return near;
}

__device__ __forceinline__ void Compare(DrawBest& best, const DrawPart& part, int64_t place) {
  const uint64_t hash = inner::HashOf(part.key, place);
  const DrawBest other{inner::Sum(inner::LogTime(hash), -static_cast<double>(part.row[place])), place};
  if (Wins(other, best)) best = other;
}

// Returns the exact winner among the thread's entries whose lower bounds are at most `bound`.
__device__ DrawBest ExactBest(const DrawPart& part, const NearBest& near, float bound) {
  DrawBest best{0, -1};
  if (!(Lower(near.first) <= bound)) return best;
  if (!(Lower(near.second) <= bound)) {
    Compare(best, part, near.place);
    return best;
  }
  for (int64_t place = part.begin + threadIdx.x; place < part.end; place += kDrawThreads) {
    const float x = part.row[place];
    if (!part.Keeps(place, x)) continue;
    if (Lower(NearLogTime(inner::HashOf(part.key, place)) - x) <= bound) Compare(best, part, place);
  }
  return best;
}

__global__ void __launch_bounds__(kDrawThreads) DrawKernel(const DrawArgs a) {
  __shared__ DrawMemory m;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const DrawPart part = PlacePart(a);
  const NearBest near = Scan(part);
  const float warp_bound = WarpMin(Upper(near.first));
  if (lane == 0) m.bound[warp] = warp_bound;
  __syncthreads();
  const float bound = WarpMin(m.bound[lane % (kDrawThreads / 32)]);
  const DrawBest warp_best = WarpBest(ExactBest(part, near, bound));
  if (lane == 0) m.best[warp] = warp_best;
  __syncthreads();
  if (warp != 0) return;
  const DrawBest best = WarpBest(m.best[lane % (kDrawThreads / 32)]);
  if (lane == 0) a.best[static_cast<int64_t>(blockIdx.x) * gridDim.y + blockIdx.y] = best;
}

// Grid: x = row. One warp compares the row's parts.
__global__ void __launch_bounds__(32) DrawWinnerKernel(const DrawArgs a) {
  const int64_t row = blockIdx.x, parts = a.parts();
  DrawBest best{0, -1};
  for (int64_t part = threadIdx.x; part < parts; part += 32) {
    const DrawBest other = a.best[row * parts + part];
    if (Wins(other, best)) best = other;
  }
  best = WarpBest(best);
  if (threadIdx.x != 0) return;
  a.winners[row] = best.place;
  a.log_probs[row] = best.place < 0 ? -INFINITY : a.log_weights[row * a.count + best.place];
}

}  // namespace ingot::kernels::cuda
