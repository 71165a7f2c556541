// Computes gated activations other than SwiGLU (kernels/layers.h), elementwise on the CPU from raw pointers. Supports
// fp32, fp64, and bf16 computed in fp32. Does not use torch. An element's bits depend only on its two inputs.
#pragma once

#include <cstdint>

#include "kernels/bfloat16.h"
#include "kernels/parallel_for.h"

namespace ingot::kernels {

enum class Gate : uint8_t {
  kGeluTanh,  // gelu(gate) * up, with the tanh approximation of gelu (arXiv 1606.08415)
  kSigmoid,   // sigmoid(gate) * up
  kClamped,   // gpt-oss: g = min(gate, 7), u = clamp(up, -7, 7): g * sigmoid(1.702 g) * (u + 1)
};

template <typename T>
void Gated(Gate kind, const T* gate, const T* up, int64_t count, T* y, const ParallelFor& parallel);
// Overwrites grad_gate and grad_up.
template <typename T>
void GatedBackward(Gate kind, const T* grad, const T* gate, const T* up, int64_t count, T* grad_gate, T* grad_up,
                   const ParallelFor& parallel);

}  // namespace ingot::kernels
