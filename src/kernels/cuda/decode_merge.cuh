// Adds the chunks that DecodeMmaKernel wrote (decode_attention.cuh), for each row in ascending order.
//
// Bound by memory: reads 4 head_dim + 8 bytes per row and chunk.
#pragma once

#include "kernels/cuda/attention_mma_softmax.cuh"
#include "kernels/cuda/decode_args.h"

namespace ingot::kernels::cuda {

// A row's softmax over its chunks so far, and the lane's 4 columns of the sum.
struct Merged {
  float top, sum, out[4];
};

// The operations are not left to the compiler to fuse, so that another kernel can have the same bits.
__device__ __forceinline__ void AddChunk(Merged& m, const DecodeState& chunk, const float4& out) {
  const float top = fmaxf(m.top, chunk.top), base = top == -INFINITY ? 0.0f : top;
  const float before = ptx::ApproximateExp2(m.top - base), now = ptx::ApproximateExp2(chunk.top - base);
  const auto add = [=](float& sum, float x) { sum = __fmaf_rn(sum, before, __fmul_rn(x, now)); };
  add(m.sum, chunk.sum);
  add(m.out[0], out.x);
  add(m.out[1], out.y);
  add(m.out[2], out.z);
  add(m.out[3], out.w);
  m.top = top;
}

// Grid: x = 4 rows (query, head), one per warp. Writes out and lse.
__global__ void __launch_bounds__(kMmaThreads) DecodeMergeKernel(const DecodeArgs a) {
  const Shape& s = a.shape;
  const int64_t index = static_cast<int64_t>(blockIdx.x) * (kMmaThreads / 32) + threadIdx.x / 32;
  if (index >= a.query_count * s.heads) return;
  const int64_t head = index % s.heads;
  const DecodeQuery query = a.decode.queries[index / s.heads];
  if (query.row < 0) return;
  const int column = static_cast<int>(threadIdx.x) % 32 * 4;
  const bool inside = column < s.head_dim;
  Merged merged{-INFINITY, 0, {}};
#pragma unroll 4
  for (int chunk = query.first / kChunkKeys; chunk <= query.last / kChunkKeys; ++chunk) {
    const int64_t entry = (int64_t{query.slot} + chunk) * s.heads + head;
    const float4 out =
        inside ? *reinterpret_cast<const float4*>(a.partial + entry * s.head_dim + column) : float4{0, 0, 0, 0};
    AddChunk(merged, a.state[entry], out);
  }
  const int64_t entry = query.row * s.heads + head;
  const float inverse = merged.sum == 0 ? 0.0f : 1.0f / merged.sum;
  if (inside) {
    *reinterpret_cast<uint2*>(a.out + entry * s.head_dim + column) = {
        ptx::PackBFloat16(merged.out[0] * inverse, merged.out[1] * inverse),
        ptx::PackBFloat16(merged.out[2] * inverse, merged.out[3] * inverse)};
  }
  if (a.lse != nullptr && column == 0) a.lse[entry] = LogSumExp(merged.top, merged.sum);
}

}  // namespace ingot::kernels::cuda
