// Shared memory of the backward kernels that use tensor cores (attention_backward_mma.cuh): what it holds, and how it is
// filled. Rows are stored as in attention_mma_memory.cuh: chunk c of row r at chunk c ^ (r % 8).
#pragma once

#include "kernels/cuda/attention_mma_memory.cuh"

namespace ingot::kernels::cuda {

// Rows of a block of rows. Rows past the last one repeat it, and have a log-sum-exp of +infinity, so that their
// probabilities are 0.
struct BlockRows {
  int32_t entry[kTileRows];  // query * heads + head: the index into lse, and into the rows of q and grad_out
  int32_t query[kTileRows];  // packed index
  int32_t position[kTileRows];
  alignas(8) float lse[kTileRows];  // base 2
  float delta[kTileRows];
};

// Keys of a tile. Keys past the last one repeat it, but no query sees them.
struct TileKeys {
  int32_t span[kTileKeys];  // a query sees the key if it is fewer than this many places after it
  int32_t position[kTileKeys];
};

// A block of rows of a key block's list: its number, its run in the plan, and the end of that run.
struct BlockPlace {
  int32_t block, run, run_end, masked;
};

template <int kWidth>
struct BackwardMemory {
  static constexpr int kRowBytes = kWidth * 2;
  BFloat16 q[kTileRows][kWidth], grad[kTileRows][kWidth], k[kTileKeys][kWidth], v[kTileKeys][kWidth];
  BlockRows rows[2];  // GradQMmaKernel uses one
  TileKeys keys[2];   // GradKeysMmaKernel uses one
  TilePlace tile[2];
  BlockPlace place[2];
  RowBlock block;
  KeyBlock key_block;
  PlannedSequence sequence;
};
// Two blocks fit on an SM of an A100 and an H100. scripts/sass_report.py counts with these numbers.
static_assert(sizeof(BackwardMemory<64>) == 36512 && sizeof(BackwardMemory<128>) == 69280);

// Returns the first block of a run.
__device__ __forceinline__ BlockPlace EnterBlockRun(const PlanView& plan, const KeyBlock& keys, int32_t run) {
  if (run >= keys.last_run) return {0, run, 0, 0};
  const Run blocks = plan.block_runs[run];
  return {blocks.first, run, blocks.last, blocks.masked};
}

__device__ __forceinline__ BlockPlace NextBlock(const PlanView& plan, const KeyBlock& keys, const BlockPlace& at) {
  if (at.block + 1 == at.run_end) return EnterBlockRun(plan, keys, at.run + 1);
  return {at.block + 1, at.run, at.run_end, at.masked};
}

// Finds row `local` of a block.
__device__ __forceinline__ void PlaceRow(BlockRows& to, int local, const BackwardArgs<BFloat16>& a,
                                         const PlannedSequence& sequence, const RowBlock& block, int kv_head) {
  const Shape& s = a.shape;
  const int64_t row = block.first_row + min(local, block.rows - 1), query = row / s.group;
  const auto entry = static_cast<int32_t>(query * s.heads + kv_head * s.group + row % s.group);
  const auto index = static_cast<int32_t>(sequence.q_offset + query);
  const float lse = a.lse[entry] * static_cast<float>(kLog2E);
  to.entry[local] = entry;
  to.query[local] = index;
  to.position[local] = sequence.positions < 0 ? index : a.plan.integers[sequence.positions + index];
  to.lse[local] = local < block.rows && lse != -INFINITY ? lse : INFINITY;
  to.delta[local] = a.delta[entry];
}

// Finds key `local` of a tile.
__device__ __forceinline__ void PlaceKey(TileKeys& to, int local, const BackwardArgs<BFloat16>& a,
                                         const PlannedSequence& sequence, int32_t tile) {
  const int32_t key = tile * kTileKeys + local, last = static_cast<int32_t>(sequence.key_count) - 1;
  const int32_t known = min(key, last);
  const int32_t span =
      sequence.visible_end < 0 ? INT_MAX : max(a.plan.integers[sequence.visible_end + known], key) - key;
  to.span[local] = key > last ? 0 : span;
  to.position[local] = sequence.positions < 0 ? key : a.plan.integers[sequence.positions + known];
}

// A thread's part in the copies of rows to shared memory: one chunk of every kStep-th row. If head_dim is less than
// kWidth, queries and output gradients are padded with zeros (Clear), and keys and values with their last chunk.
template <int kWidth>
struct RowCopy {
  static constexpr int kChunks = kWidth / 8, kStep = kMmaThreads / kChunks, kRowBytes = kWidth * 2;
  static_assert(kStep % 8 == 0);
  int row, chunk;  // the first row
  uint32_t place;  // byte in an array of rows
  uint32_t width;  // bytes of a head
  bool inside;     // is the chunk part of a head?

  __device__ explicit RowCopy(const Shape& s)
      : row(static_cast<int>(threadIdx.x) / kChunks), chunk(static_cast<int>(threadIdx.x) % kChunks) {
    place = static_cast<uint32_t>(row * kRowBytes + (chunk ^ row % 8) * 16);
    width = static_cast<uint32_t>(s.head_dim * 2);
    inside = chunk * 8 < s.head_dim;
  }

  // Writes zeros past the end of each row.
  __device__ __forceinline__ void Clear(BFloat16 (&rows)[kTileRows][kWidth]) const {
    for (int i = 0; i < kTileRows && !inside; i += kStep) {
      *reinterpret_cast<uint4*>(reinterpret_cast<char*>(rows[i]) + place) = {0, 0, 0, 0};
    }
  }

  // Starts the copy of a block's rows of q or grad_out. Returns before it is done, as does Keys.
  __device__ __forceinline__ void Rows(const BFloat16* from, const BlockRows& rows,
                                       BFloat16 (&to)[kTileRows][kWidth]) const {
    if (!inside) return;
    const char* const first = reinterpret_cast<const char*>(from) + chunk * 16;
    const uint32_t address = ptx::SharedAddress(to) + place;
#pragma unroll
    for (int i = 0; i < kTileRows / kStep; ++i) {
      const auto at = static_cast<uint32_t>(rows.entry[row + i * kStep]);
      ptx::CopyAsync(address + i * kStep * kRowBytes, ptx::Offset(first, at, width));
    }
  }

  // Starts the copy of a tile's keys or values.
  __device__ __forceinline__ void Keys(const BFloat16* from, const Shape& s, int32_t tile, int32_t last, int kv_head,
                                       BFloat16 (&to)[kTileKeys][kWidth]) const {
    const char* const first = reinterpret_cast<const char*>(from) + kv_head * width +
                              (inside ? static_cast<uint32_t>(chunk * 16) : width - 16);
    const uint32_t address = ptx::SharedAddress(to) + place, stride = static_cast<uint32_t>(s.kv_heads) * width;
#pragma unroll
    for (int i = 0; i < kTileKeys / kStep; ++i) {
      const auto at = static_cast<uint32_t>(min(tile * kTileKeys + row + i * kStep, last));
      ptx::CopyAsync(address + i * kStep * kRowBytes, ptx::Offset(first, at, stride));
    }
  }
};

}  // namespace ingot::kernels::cuda
