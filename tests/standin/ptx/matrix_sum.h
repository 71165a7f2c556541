// How mma adds: fp32 in ascending order of the depth, or as models of the A100's tensor cores do (Khattak and Mikaitis, arXiv 2511.10909).
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
