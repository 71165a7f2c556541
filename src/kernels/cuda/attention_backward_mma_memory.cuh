// Shared memory of the backward kernels that use tensor cores (attention_backward_mma.cuh): what it holds, and how it is
// filled. Rows are stored as in attention_mma_memory.cuh: chunk c of row r at chunk c ^ (r % 8).
#pragma once

#include "kernels/cuda/attention_mma_memory.cuh"

namespace ingot::kernels::cuda {

constexpr int kStageRows = 32;

// Some rows of a block of rows. Rows past the block's last one repeat it, and have a log-sum-exp of +infinity, so that
// their probabilities are 0.
template <int kRows>
struct PlacedRows {
  int32_t entry[kRows];  // query * heads + head: the index into lse, and into the rows of q and grad_out
  int32_t query[kRows];  // packed index
  int32_t position[kRows];
  alignas(8) float lse[kRows];  // base 2
  float delta[kRows];
};

// Keys of a tile. Keys past the last one repeat it, but no query sees them.
struct TileKeys {
  int32_t span[kTileKeys];  // a query sees the key if it is fewer than this many places after it
  int32_t position[kTileKeys];
};

// A stage of GradKeysMmaKernel: half of a block of rows of a key block's list, the block's run in the plan, and the end of
// that run.
struct StagePlace {
  int32_t block, half, run, run_end, masked;
};

template <int kWidth>
struct GradQMemory {
  BFloat16 q[kTileRows][kWidth], grad[kTileRows][kWidth], k[kTileKeys][kWidth], v[kTileKeys][kWidth];
  PlacedRows<kTileRows> rows;
  TileKeys keys[2];  // of one tile and the next
  TilePlace tile[2];
  RowBlock block;
  PlannedSequence sequence;
};

template <int kWidth>
struct GradKeysMemory {
  BFloat16 q[2][kStageRows][kWidth], grad[2][kStageRows][kWidth];  // two stages; at first, the tile's keys and values
  PlacedRows<kStageRows> rows[3];                                  // of one stage and the next two
  StagePlace place[3];                                             // run = key_block.last_run: no more stages
  TileKeys keys;
  KeyBlock key_block;
  PlannedSequence sequence;
};
// Two blocks of each fit on an SM of an A100 and an H100. scripts/sass_report.py counts with these numbers.
static_assert(sizeof(GradQMemory<64>) == 35184 && sizeof(GradQMemory<128>) == 67952);
static_assert(sizeof(GradKeysMemory<64>) == 18952 && sizeof(GradKeysMemory<128>) == 35336);

// Returns the first stage of a run.
__device__ __forceinline__ StagePlace EnterBlockRun(const PlanView& plan, const KeyBlock& keys, int32_t run) {
  if (run >= keys.last_run) return {0, 0, run, 0, 0};
  const Run blocks = plan.block_runs[run];
  return {blocks.first, 0, run, blocks.last, blocks.masked};
}

__device__ __forceinline__ StagePlace NextStage(const PlanView& plan, const KeyBlock& keys, const StagePlace& at) {
  if (at.half == 0) return {at.block, 1, at.run, at.run_end, at.masked};
  if (at.block + 1 == at.run_end) return EnterBlockRun(plan, keys, at.run + 1);
  return {at.block + 1, 0, at.run, at.run_end, at.masked};
}

// Finds row `local` of a block, for place `at`.
template <int kRows>
__device__ __forceinline__ void PlaceRow(PlacedRows<kRows>& to, int at, int local, const BackwardArgs<BFloat16>& a,
                                         const PlannedSequence& sequence, const RowBlock& block, int kv_head) {
  const Shape& s = a.shape;
  const int64_t row = block.first_row + min(local, block.rows - 1), query = row / s.group;
  const auto entry = static_cast<int32_t>(query * s.heads + kv_head * s.group + row % s.group);
  const auto index = static_cast<int32_t>(sequence.q_offset + query);
  const float lse = a.lse[entry] * static_cast<float>(kLog2E);
  to.entry[at] = entry;
  to.query[at] = index;
  to.position[at] = sequence.positions < 0 ? index : a.plan.integers[sequence.positions + index];
  to.lse[at] = local < block.rows && lse != -INFINITY ? lse : INFINITY;
  to.delta[at] = a.delta[entry];
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
  uint32_t place;   // byte in an array of rows, of the first row
  uint32_t offset;  // byte in a head

  __device__ RowCopy() {
    const int row = static_cast<int>(threadIdx.x) / kChunks, chunk = static_cast<int>(threadIdx.x) % kChunks;
    place = static_cast<uint32_t>(row * kRowBytes + (chunk ^ row % 8) * 16);
    offset = static_cast<uint32_t>(chunk * 16);
  }

  __device__ __forceinline__ static uint32_t HeadBytes(const Shape& s) { return static_cast<uint32_t>(s.head_dim) * 2; }

  // Writes zeros past the end of each row.
  template <int kRows>
  __device__ __forceinline__ void Clear(const Shape& s, BFloat16 (&rows)[kRows][kWidth]) const {
    for (int i = 0; i < kRows && offset >= HeadBytes(s); i += kStep) {
      *reinterpret_cast<uint4*>(reinterpret_cast<char*>(rows[i]) + place) = {0, 0, 0, 0};
    }
  }

  // Starts the copy of rows of q or grad_out. Returns before it is done, as does Keys.
  template <int kRows>
  __device__ __forceinline__ void Rows(const BFloat16* from, const Shape& s, const PlacedRows<kRows>& rows,
                                       BFloat16 (&to)[kRows][kWidth]) const {
    if (offset >= HeadBytes(s)) return;
    const char* const first = reinterpret_cast<const char*>(from) + offset;
    const uint32_t address = ptx::SharedAddress(to) + place;
#pragma unroll
    for (int i = 0; i < kRows / kStep; ++i) {
      const auto at = static_cast<uint32_t>(rows.entry[place / kRowBytes + i * kStep]);
      ptx::CopyAsync(address + i * kStep * kRowBytes, ptx::Offset(first, at, HeadBytes(s)));
    }
  }

  // Starts the copy of a tile's keys or values.
  __device__ __forceinline__ void Keys(const BFloat16* from, const Shape& s, int32_t tile, int32_t last, int kv_head,
                                       BFloat16 (&to)[kTileKeys][kWidth]) const {
    const uint32_t width = HeadBytes(s), stride = static_cast<uint32_t>(s.kv_heads) * width;
    const char* const first = reinterpret_cast<const char*>(from) + kv_head * width + min(offset, width - 16);
    const uint32_t address = ptx::SharedAddress(to) + place;
#pragma unroll
    for (int i = 0; i < kTileKeys / kStep; ++i) {
      const auto row = static_cast<int32_t>(place / kRowBytes) + i * kStep;
      const auto at = static_cast<uint32_t>(min(tile * kTileKeys + row, last));
      ptx::CopyAsync(address + i * kStep * kRowBytes, ptx::Offset(first, at, stride));
    }
  }
};

}  // namespace ingot::kernels::cuda
