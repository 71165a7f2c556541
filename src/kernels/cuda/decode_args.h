// Arguments for the CUDA decode kernels (decode_attention.cuh): plain values and device pointers.
#pragma once

#include "kernels/cuda/attention_args.h"
#include "kernels/cuda/decode_plan.h"

namespace ingot::kernels::cuda {

// A row's softmax over a chunk: the largest score (base 2), and the sum of 2^(score - top).
struct alignas(8) DecodeState {
  float top, sum;
};

// `plan` is not used. REQUIRES: UsesMma<BFloat16>(shape), pages, and 16-byte aligned q, k, v, and out.
struct DecodeArgs : ForwardMmaArgs {
  DecodeView decode;
  int64_t query_count;
  float* partial;      // [slots, heads, head_dim]: sums of 2^(score - top) v over a chunk
  DecodeState* state;  // [slots, heads]
};

}  // namespace ingot::kernels::cuda
