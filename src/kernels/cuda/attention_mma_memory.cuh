// Shared memory of ForwardMmaKernel: what it holds, and how it is filled and read.
//
// Rows of q, k, and v have kWidth elements in pieces of 16 bytes ("chunks"). Chunk c of row r is stored at chunk
// c ^ (r % 8), so that the 8 rows that ldmatrix reads at a time are in different banks. All row offsets are multiples
// of 8 rows, so the exclusive or is a constant of each lane.
#pragma once

#include <limits.h>

#include <cstdint>

#include "kernels/cuda/attention_args.h"
#include "kernels/cuda/ptx.cuh"

namespace ingot::kernels::cuda {

constexpr int kMmaThreads = 128;
static_assert(kMmaRows == 32 * (kMmaThreads / 32));

// A tile of the block's list: its number, its run in the plan, and the end of that run.
struct TilePlace {
  int32_t tile, run, run_end, masked;
};

template <int kWidth>
struct MmaMemory {
  static constexpr int kRowBytes = kWidth * 2;
  BFloat16 q[kMmaRows][kWidth], k[kTileKeys][kWidth], v[kTileKeys][kWidth];
  int64_t q_at[kMmaRows];   // offset of the row in q; rows past the last one repeat it
  int64_t entry[kMmaRows];  // (row of q) * heads + head: the index into lse, and into out's rows
  int32_t query[kMmaRows];  // packed index; -1 = no such row
  int32_t position[kMmaRows];
  // Of one tile and the next. Keys past the last one repeat it, but no query sees them.
  int32_t key_row[2][kTileKeys];       // row in k and v
  int32_t key_span[2][kTileKeys];      // a query sees the key if it is fewer than this many places after it
  int32_t key_position[2][kTileKeys];  // without a window, all positions are 0
  TilePlace place[2];                  // run = block.last_run: no more tiles
  RowBlock block;
  PlannedSequence sequence;
};
// Two blocks fit on an SM of an A100 and an H100. scripts/sass_report.py counts with these numbers.
static_assert(sizeof(MmaMemory<64>) == 37488 && sizeof(MmaMemory<128>) == 70256);

// Returns the first tile of a run.
__device__ __forceinline__ TilePlace EnterRun(const PlanView& plan, const RowBlock& block, int32_t run) {
  if (run >= block.last_run) return {0, run, 0, 0};
  const TileRun tiles = plan.runs[run];
  return {tiles.first, run, tiles.last, tiles.masked};
}

__device__ __forceinline__ TilePlace NextTile(const PlanView& plan, const RowBlock& block, const TilePlace& at) {
  if (at.tile + 1 == at.run_end) return EnterRun(plan, block, at.run + 1);
  return {at.tile + 1, at.run, at.run_end, at.masked};
}

// Finds the block's rows. Each thread finds one.
template <int kWidth>
__device__ void PlaceRows(MmaMemory<kWidth>& m, const ForwardMmaArgs& a, int kv_head) {
  const Shape& s = a.shape;
  const PlannedSequence& q = m.sequence;
  const int thread = static_cast<int>(threadIdx.x);
  const int64_t row = m.block.first_row + min(thread, m.block.rows - 1), query = row / s.group;
  const int64_t head = kv_head * s.group + row % s.group;
  const auto index = static_cast<int32_t>(q.q_offset + query);
  m.q_at[thread] = (q.q_begin + query) * s.q_row_stride + head * s.head_dim;
  m.entry[thread] = (q.q_begin + query) * s.heads + head;
  m.query[thread] = thread < m.block.rows ? index : -1;
  m.position[thread] = s.window == 0 ? 0 : q.positions < 0 ? index : a.plan.integers[q.positions + index];
}

// Finds the tile's keys and, if it is masked, the queries that see them. Thread t finds key t.
template <int kWidth>
__device__ __forceinline__ void PlaceKeys(MmaMemory<kWidth>& m, const ForwardMmaArgs& a, const TilePlace& at,
                                          int parity) {
  const PlannedSequence& q = m.sequence;
  const int thread = static_cast<int>(threadIdx.x);
  if (thread == 0) m.place[parity] = at;
  if (at.run >= m.block.last_run) return;
  const int32_t key = at.tile * kTileKeys + thread, last = static_cast<int32_t>(q.key_count) - 1;
  const int32_t known = min(key, last);
  auto row = static_cast<int32_t>(q.key_begin) + known;
  if (q.block_table >= 0) {
    const auto size = static_cast<uint32_t>(a.shape.page_size), index = static_cast<uint32_t>(known);
    const auto page = static_cast<uint32_t>(a.plan.integers[q.block_table + index / size]);
    row = static_cast<int32_t>(page * size + index % size);
  }
  m.key_row[parity][thread] = row;
  if (at.masked == 0) return;
  const int32_t span = q.visible_end < 0 ? INT_MAX : max(a.plan.integers[q.visible_end + known], key) - key;
  m.key_span[parity][thread] = key > last ? 0 : span;
  m.key_position[parity][thread] = a.shape.window == 0 ? 0
                                   : q.positions < 0   ? key
                                                       : a.plan.integers[q.positions + known];
}

// Finds the block's sequence, rows, and first tile. Ends with a barrier.
template <int kWidth>
__device__ __forceinline__ void PlaceBlock(MmaMemory<kWidth>& m, const ForwardMmaArgs& a, int kv_head) {
  if (threadIdx.x == 0) {
    m.block = a.plan.blocks[gridDim.x - 1 - blockIdx.x];
    m.sequence = a.plan.sequences[m.block.sequence];
  }
  __syncthreads();
  PlaceRows(m, a, kv_head);
  if (threadIdx.x < kTileKeys) PlaceKeys(m, a, EnterRun(a.plan, m.block, m.block.first_run), 0);
  __syncthreads();
}

// A thread's part in the copies of rows to shared memory: one chunk of every kStep-th row. If head_dim is less than
// kWidth, the queries are padded with zeros. The padding of keys and values repeats their last chunk: the scores do not
// depend on it, and the outputs there are not written.
template <int kWidth>
struct CopyLane {
  static constexpr int kChunks = kWidth / 8, kStep = kMmaThreads / kChunks, kRowBytes = MmaMemory<kWidth>::kRowBytes;
  static_assert(kStep % 8 == 0);
  int row, chunk;   // the first row
  uint32_t place;   // byte in an array of rows
  uint32_t offset;  // byte in a row of k and v

  __device__ CopyLane(const ForwardMmaArgs& a, int kv_head)
      : row(static_cast<int>(threadIdx.x) / kChunks), chunk(static_cast<int>(threadIdx.x) % kChunks) {
    const int head_dim = static_cast<int>(a.shape.head_dim);
    place = static_cast<uint32_t>(row * kRowBytes + (chunk ^ row % 8) * 16);
    offset = static_cast<uint32_t>(kv_head * head_dim * 2 + min(chunk, head_dim / 8 - 1) * 16);
  }

  // Starts the copy of a tile's keys or values. Returns before it is done, as does Queries.
  __device__ __forceinline__ void Tile(const BFloat16* from, int64_t row_stride, BFloat16 (&to)[kTileKeys][kWidth],
                                       const int32_t (&rows)[kTileKeys]) const {
    const char* const first = reinterpret_cast<const char*>(from) + offset;
    const auto row_bytes = static_cast<uint32_t>(row_stride * 2);
    const uint32_t address = ptx::SharedAddress(to) + place;
#pragma unroll
    for (int i = 0; i < kTileKeys / kStep; ++i) {
      const auto at = static_cast<uint32_t>(rows[place / kRowBytes + i * kStep]);
      ptx::CopyAsync(address + i * kStep * kRowBytes, ptx::Offset(first, at, row_bytes));
    }
  }

  __device__ __forceinline__ void Queries(MmaMemory<kWidth>& m, const ForwardMmaArgs& a) const {
    const bool inside = chunk * 8 < a.shape.head_dim;
    for (int i = row; i < kMmaRows; i += kStep) {
      char* const to = reinterpret_cast<char*>(m.q[i - row]) + place;
      if (inside) {
        ptx::CopyAsync(ptx::SharedAddress(to), a.q + m.q_at[i] + chunk * 8);
      } else {
        *reinterpret_cast<uint4*>(to) = {0, 0, 0, 0};
      }
    }
  }
};

// The addresses that a lane passes to ldmatrix for chunks 0 and 1 and the first 16 rows: q of its warp (the left
// operand), k (the right operand), and v (the right operand, transposed).
struct LaneAddresses {
  uint32_t q, k, v;
};

template <int kWidth>
__device__ __forceinline__ LaneAddresses PlaceLane(const MmaMemory<kWidth>& m) {
  constexpr int kRowBytes = MmaMemory<kWidth>::kRowBytes;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32, row = lane % 8;
  const int across = lane % 16 * kRowBytes + (lane / 16 ^ row) * 16;               // rows 0-15, then next chunk
  const int down = (lane / 16 * 8 + row) * kRowBytes + (lane / 8 % 2 ^ row) * 16;  // rows 0-7, next chunk, 8-15
  return {ptx::SharedAddress(m.q) + warp * 32 * kRowBytes + across, ptx::SharedAddress(m.k) + down,
          ptx::SharedAddress(m.v) + across};
}

// Returns the address of chunks 2 n and 2 n + 1 of the same rows. The rows are aligned to 128 bytes.
__device__ __forceinline__ uint32_t Chunks(uint32_t first, int n) { return (first ^ n % 4 * 32) + n / 4 * 128; }

}  // namespace ingot::kernels::cuda
