// Single instructions of sm_80 as kernels of one warp per block, on device pointers (primitives.cu). gpu_primitives.cc checks what they give.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace ingot::kernels::primitives {

constexpr int kLanes = 32;
constexpr int kMatrixWords = 10;  // of a lane: 4 of a, 2 of b, 4 of c

enum class Matrix { kHalf16, kHalf8, kBfloat16, kBfloat8, kTf32x8, kTf32x4 };  // the type and the depth of mma.m16n8
enum class Approximate { kExp2, kLog2, kReciprocal, kReciprocalRoot };

// in: [count, 32, 10] words of the lanes' operands; shapes with fewer registers leave the last ones of a and b out. out: [count, 32, 4].
cudaError_t LaunchMatrix(Matrix shape, const uint32_t* in, float* out, int count);

// out[i] = f(in[i]), i < count, a multiple of 32.
cudaError_t LaunchApproximate(Approximate f, const float* in, float* out, int count);

// Loads four matrices of 8 x 8 halves, in: [4, 8, 8], by ldmatrix. out: [32, 4] words.
cudaError_t LaunchLoadMatrix(bool transposed, const uint16_t* in, uint32_t* out);

// Copies `kept[i]` of each lane's 16 bytes by cp.async, which fills the rest with zeros. in, out: [32, 16]; kept: [32].
cudaError_t LaunchAsyncCopy(const uint8_t* in, const uint32_t* kept, uint8_t* out);

}  // namespace ingot::kernels::primitives
