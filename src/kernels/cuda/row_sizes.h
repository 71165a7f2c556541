// Sizes that the kernels of rows share.
#pragma once

#include <cstdint>

#include "kernels/bfloat16.h"

namespace ingot::kernels::cuda {

template <typename T>
inline constexpr int kVector = 16 / sizeof(T);  // numbers of one access

INGOT_HOST_DEVICE constexpr int64_t Ceil(int64_t a, int64_t b) { return (a + b - 1) / b; }  // of a / b

}  // namespace ingot::kernels::cuda
