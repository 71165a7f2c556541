// Computes attention for decode with tensor cores, for bf16 on sm_80 and newer: few queries over many keys in pages.
//
// Split over keys: DecodeMmaKernel writes each row's softmax over one chunk of kChunkKeys keys, and DecodeMergeKernel
// (decode_merge.cuh) adds a row's chunks in ascending order. Chunks start at fixed multiples, so a row's bits depend only
// on its own keys: not on the batch, on which sequences share a prefix, or on the number of SMs.
//
// Within a chunk, each row's arithmetic is that of ForwardMmaKernel (attention_forward_mma.cuh), whose helpers this file
// uses. A row whose keys are all in one chunk has the same bits in both.
//
// DecodeMmaKernel. Grid: x = item (decode_plan.h), y = kv head. A block has 4 warps of 16 rows. Its tiles of 64 keys:
//
//   wait for K(i)   | barrier | start V(i)   | S = Q K^T
//   wait for V(i)   | barrier | start K(i+1) | mask, online softmax, O = O 2^(old top - new top) + P V
//
// An item of one sequence has few rows, so most warps only copy. The kernel is bound by memory: per kv head and chunk,
// it reads keys and values once, and writes 4 head_dim + 8 bytes per row.
//
// Errors compared with fp64 are those of ForwardMmaKernel. Chunks are merged in fp32.
//
// Source: Dao et al., Flash-Decoding for long-context inference, 2023.
#pragma once

#include "kernels/cuda/attention_mma_memory.cuh"
#include "kernels/cuda/attention_mma_softmax.cuh"
#include "kernels/cuda/decode_args.h"

namespace ingot::kernels::cuda {

static_assert(kDecodeRows == kTileKeys && kChunkKeys % kTileKeys == 0);
static_assert(kDecodeRows == 16 * (kMmaThreads / 32));

template <int kWidth>
struct DecodeMemory {
  static constexpr int kRowBytes = kWidth * 2;
  BFloat16 k[kTileKeys][kWidth], v[kTileKeys][kWidth];  // v holds the queries at first. Swizzled as in MmaMemory
  int64_t q_at[kDecodeRows];                            // offset of the row in q
  int64_t entry[kDecodeRows];                           // index into state, and into partial's rows
  int32_t first[kDecodeRows], last[kDecodeRows];        // keys that the row sees
  float sink[kDecodeRows];                              // in base 2, for the row's first chunk; -infinity = none
  int32_t key_row[kChunkKeys / kTileKeys][kTileKeys];   // row in k and v. Keys that no row sees repeat one that is seen
  DecodeItem item;
};
// scripts/sass_report.py counts with these numbers.
static_assert(sizeof(DecodeMemory<64>) == 20264 && sizeof(DecodeMemory<128>) == 36648);

// A lane has parts of rows l / 4 and l / 4 + 8 of its warp: those of an accumulator of m16n8.
struct DecodeSoftmax {
  float top[2], sum[2];
};

// Finds a row. Rows past the last one see no key.
template <int kWidth>
__device__ __forceinline__ void PlaceRow(DecodeMemory<kWidth>& m, const DecodeArgs& a, int kv_head, int row) {
  m.first[row] = 0;
  m.last[row] = -1;
  m.sink[row] = -INFINITY;
  if (row >= m.item.rows) return;
  const Shape& s = a.shape;
  const auto group = static_cast<int>(s.group), at = m.item.first_row + row;
  const DecodeQuery query = a.decode.queries[a.decode.list[m.item.list + at / group]];
  const int64_t head = kv_head * s.group + at % group;
  m.q_at[row] = query.row * s.q_row_stride + head * s.head_dim;
  m.entry[row] = (int64_t{query.slot} + m.item.chunk) * s.heads + head;
  m.first[row] = query.first;
  m.last[row] = query.last;
  if (a.sinks != nullptr && query.first / kChunkKeys == m.item.chunk) {
    m.sink[row] = a.sinks[head] * static_cast<float>(kLog2E);
  }
}

template <int kWidth>
__device__ __forceinline__ void PlaceKeys(DecodeMemory<kWidth>& m, const DecodeArgs& a) {
  const auto size = static_cast<uint32_t>(a.shape.page_size);
  for (int i = static_cast<int>(threadIdx.x); i < kChunkKeys; i += kMmaThreads) {
    const auto key = static_cast<uint32_t>(min(max(m.item.chunk * kChunkKeys + i, m.item.first), m.item.last));
    const auto page = static_cast<uint32_t>(a.decode.integers[m.item.pages + key / size]);
    m.key_row[i / kTileKeys][i % kTileKeys] = static_cast<int32_t>(page * size + key % size);
  }
}

// Finds the block's rows and keys. Returns false if the item is empty. Ends with a barrier.
template <int kWidth>
__device__ __forceinline__ bool PlaceItem(DecodeMemory<kWidth>& m, const DecodeArgs& a, int kv_head) {
  if (threadIdx.x == 0) m.item = a.decode.items[blockIdx.x];
  __syncthreads();
  if (m.item.rows == 0) return false;
  if (threadIdx.x < kDecodeRows) PlaceRow(m, a, kv_head, static_cast<int>(threadIdx.x));
  PlaceKeys(m, a);
  __syncthreads();
  return true;
}

// Starts the copy of the queries to v, padded with zeros.
template <int kWidth>
__device__ __forceinline__ void CopyQueries(DecodeMemory<kWidth>& m, const DecodeArgs& a,
                                            const CopyLane<kWidth>& copy) {
  const bool inside = copy.chunk * 8 < a.shape.head_dim;
#pragma unroll
  for (int i = 0; i < kDecodeRows; i += CopyLane<kWidth>::kStep) {
    char* const to = reinterpret_cast<char*>(m.v[i]) + copy.place;
    if (inside && copy.row + i < m.item.rows) {
      ptx::CopyAsync(ptx::SharedAddress(to), a.q + m.q_at[copy.row + i] + copy.chunk * 8);
    } else {
      *reinterpret_cast<uint4*>(to) = {0, 0, 0, 0};
    }
  }
}

// As in MmaMemory's PlaceLane, for 16 rows per warp.
template <int kWidth>
__device__ __forceinline__ LaneAddresses PlaceLane(const DecodeMemory<kWidth>& m, int warp) {
  constexpr int kRowBytes = DecodeMemory<kWidth>::kRowBytes;
  const int lane = static_cast<int>(threadIdx.x) % 32, row = lane % 8;
  const int across = lane % 16 * kRowBytes + (lane / 16 ^ row) * 16;               // rows 0-15, then next chunk
  const int down = (lane / 16 * 8 + row) * kRowBytes + (lane / 8 % 2 ^ row) * 16;  // rows 0-7, next chunk, 8-15
  const uint32_t v = ptx::SharedAddress(m.v) + across;
  return {v + warp * 16 * kRowBytes, ptx::SharedAddress(m.k) + down, v};
}

// s = q k^T, for the warp's 16 rows and the tile's 64 keys.
template <int kWidth>
__device__ __forceinline__ void MultiplyKeys(float (&s)[kTileKeys / 8][4], const uint32_t (&q)[kWidth / 16][4],
                                             const LaneAddresses& at) {
#pragma unroll
  for (int i = 0; i < kTileKeys / 8 * 4; ++i) s[i / 4][i % 4] = 0;
#pragma unroll
  for (int depth = 0; depth < kWidth / 16; ++depth) {
#pragma unroll
    for (int n = 0; n < kTileKeys / 16; ++n) {
      uint32_t k[4];
      ptx::LoadMatrices(k, Chunks(at.k, depth) + n * 16 * DecodeMemory<kWidth>::kRowBytes);
      ptx::MultiplyAdd(s[2 * n], q[depth], k[0], k[1]);
      ptx::MultiplyAdd(s[2 * n + 1], q[depth], k[2], k[3]);
    }
  }
}

// out += p v, with p rounded to bf16.
template <int kWidth>
__device__ __forceinline__ void AddValues(float (&out)[kWidth / 8][4], const float (&p)[kTileKeys / 8][4],
                                          const LaneAddresses& at) {
#pragma unroll
  for (int depth = 0; depth < kTileKeys / 16; ++depth) {
    uint32_t weights[4], v[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float(&pair)[4] = p[2 * depth + i / 2];
      weights[i] = ptx::PackBFloat16(pair[i % 2 * 2], pair[i % 2 * 2 + 1]);
    }
#pragma unroll
    for (int n = 0; n < kWidth / 16; ++n) {
      ptx::LoadMatricesTransposed(v, Chunks(at.v, n) + depth * 16 * DecodeMemory<kWidth>::kRowBytes);
      ptx::MultiplyAdd(out[2 * n], weights, v[0], v[1]);
      ptx::MultiplyAdd(out[2 * n + 1], weights, v[2], v[3]);
    }
  }
}

// Replaces the scores of hidden keys by -infinity. `key` is the tile's first key.
template <int kWidth>
__device__ __forceinline__ void Mask(float (&s)[kTileKeys / 8][4], const DecodeMemory<kWidth>& m, int row, int key) {
  const int column = key + static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int first = m.first[row + i * 8] - column, last = m.last[row + i * 8] - column;
#pragma unroll
    for (int n = 0; n < kTileKeys / 8; ++n) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const bool sees = (first <= n * 8 + j) & (n * 8 + j <= last);
        float& score = s[n][i * 2 + j];
        score = sees ? score : -INFINITY;
      }
    }
  }
}

template <int kWidth>
__device__ __forceinline__ void AddToSoftmax(DecodeSoftmax& state, float (&out)[kWidth / 8][4],
                                             float (&s)[kTileKeys / 8][4], float factor) {
#pragma unroll
  for (int i = 0; i < 2; ++i) AddToRow<kWidth>(state.top[i], state.sum[i], out, s, i, factor);
}

// Returns the state of the sinks alone. One lane of a quad has a sink's part of the sum.
template <int kWidth>
__device__ __forceinline__ DecodeSoftmax BeginSoftmax(const DecodeMemory<kWidth>& m, int row) {
  DecodeSoftmax state;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    state.top[i] = m.sink[row + i * 8];
    state.sum[i] = state.top[i] == -INFINITY || threadIdx.x % 4 != 0 ? 0.0f : 1.0f;
  }
  return state;
}

// Writes the chunk's results. Each quad writes 32 consecutive bytes of a row at a time.
template <int kWidth>
__device__ __forceinline__ void WriteChunk(const DecodeMemory<kWidth>& m, const DecodeArgs& a,
                                           const float (&out)[kWidth / 8][4], const DecodeSoftmax& state, int row) {
  const int column = static_cast<int>(threadIdx.x) % 4 * 2, head_dim = static_cast<int>(a.shape.head_dim);
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const float sum = QuadSum(state.sum[i]);
    if (row + i * 8 >= m.item.rows) continue;
    const int64_t entry = m.entry[row + i * 8];
    if (column == 0) a.state[entry] = {state.top[i], sum};
    float* const to = a.partial + entry * head_dim + column;
#pragma unroll
    for (int n = 0; n < kWidth / 8; ++n) {
      if (n * 8 < head_dim) *reinterpret_cast<float2*>(to + n * 8) = {out[n][i * 2], out[n][i * 2 + 1]};
    }
  }
}

template <int kWidth>
__global__ void __launch_bounds__(kMmaThreads, kWidth <= 64 ? 4 : 3) DecodeMmaKernel(const DecodeArgs a) {
  extern __shared__ __align__(1024) char shared_bytes[];
  DecodeMemory<kWidth>& m = *reinterpret_cast<DecodeMemory<kWidth>*>(shared_bytes);
  if (!PlaceItem(m, a, static_cast<int>(blockIdx.y))) return;
  const CopyLane<kWidth> copy(a, static_cast<int>(blockIdx.y));
  // The first warps have the rows. Rotated, so that they are in different quarters of an SM in different blocks.
  const int warp = static_cast<int>((threadIdx.x / 32 + blockIdx.x) % (kMmaThreads / 32));
  const int row = warp * 16 + static_cast<int>(threadIdx.x) % 32 / 4;  // the first of the lane's two
  const bool active = warp * 16 < m.item.rows;
  const LaneAddresses at = PlaceLane(m, warp);
  const int chunk_key = m.item.chunk * kChunkKeys, last_tile = (m.item.last - chunk_key) / kTileKeys;
  int tile = (m.item.first - chunk_key) / kTileKeys;
  CopyQueries(m, a, copy);
  copy.Tile(a.k, a.shape.k_row_stride, m.k, m.key_row[tile]);
  ptx::WaitForCopies();
  __syncthreads();
  uint32_t q[kWidth / 16][4];
#pragma unroll
  for (int depth = 0; depth < kWidth / 16; ++depth) ptx::LoadMatrices(q[depth], Chunks(at.q, depth));
  DecodeSoftmax state = BeginSoftmax(m, row);
  float out[kWidth / 8][4] = {}, s[kTileKeys / 8][4];
  for (; tile <= last_tile; ++tile) {
    ptx::WaitForCopies();
    __syncthreads();
    copy.Tile(a.v, a.shape.v_row_stride, m.v, m.key_row[tile]);
    if (active) MultiplyKeys<kWidth>(s, q, at);
    ptx::WaitForCopies();
    __syncthreads();
    if (tile < last_tile) copy.Tile(a.k, a.shape.k_row_stride, m.k, m.key_row[tile + 1]);
    if (active) {
      const int key = chunk_key + tile * kTileKeys;
      if (a.sign <= 0) {
#pragma unroll
        for (int i = 0; i < kTileKeys / 8 * 4; ++i) s[i / 4][i % 4] *= a.sign;
      }
      if (key < m.item.all_first || key + kTileKeys - 1 > m.item.all_last) Mask(s, m, row, key);
      AddToSoftmax<kWidth>(state, out, s, a.factor);
      AddValues<kWidth>(out, s, at);
    }
  }
  if (active) WriteChunk(m, a, out, state, row);
}

}  // namespace ingot::kernels::cuda
