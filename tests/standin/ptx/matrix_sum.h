// How mma adds: fp32 in ascending order of the depth, or as the A100's tensor cores do by a published model: the truncated fused dot product
// of Xie, Xu, Wang, Yang and Yang, "Bit-Accurate Modeling of GPU Matrix Multiply-Accumulate Units" (arXiv 2511.10909, whose authors compared it
// with the hardware; their program is github.com/microsoft/MMA-Sim). Khattak and Mikaitis, "Accurate Models of NVIDIA Tensor Cores" (arXiv
// 2512.07004), is a second study. NVIDIA documents neither order nor rounding, and this code has not been compared with a GPU.
#pragma once

#include "standin/ptx/half.h"

namespace ingot::standin::ptx {

enum class MatrixType : uint8_t { kHalf, kBfloat, kTf32 };

struct MatrixShape {
  MatrixType type;
  uint8_t depth;
  bool half_sums;  // accumulators are fp16
};

// result = a b^T + c, over the first `depth` columns of a and b.
void MultiplyAdd(const MatrixShape& shape, bool ascending, const float (&a)[16][16], const float (&b)[8][16],
                 const float (&c)[16][8], float (&result)[16][8]);

}  // namespace ingot::standin::ptx
