// silu(gate) * up and its gradients, elementwise. A thread has one vector of numbers.
//
// Grid: x = kSwiGluThreads vectors. Reads and writes each number once.
#pragma once

#include "kernels/cuda/layers_args.h"
#include "kernels/cuda/row_values.cuh"

namespace ingot::kernels::cuda {

__device__ __forceinline__ float Exp(float x) { return expf(x); }
__device__ __forceinline__ double Exp(double x) { return exp(x); }

template <typename T>
__device__ __forceinline__ int64_t SwiGluPlace() {
  return (static_cast<int64_t>(blockIdx.x) * kSwiGluThreads + threadIdx.x) * kVector<T>;
}

template <typename T>
__global__ void __launch_bounds__(kSwiGluThreads) SwiGluKernel(const SwiGluArgs<T> a) {
  using Acc = Accumulator<T>;
  const int64_t at = SwiGluPlace<T>();
  Acc gate[kVector<T>], up[kVector<T>];
  Load(gate, a.gate, at, a.count);
  Load(up, a.up, at, a.count);
#pragma unroll
  for (int e = 0; e < kVector<T>; ++e) up[e] = Mul(Div(gate[e], Add(Acc(1), Exp(-gate[e]))), up[e]);
  Store(a.y, up, at, a.count);
}

template <typename T>
__global__ void __launch_bounds__(kSwiGluThreads) SwiGluGradientKernel(const SwiGluGradientArgs<T> a) {
  using Acc = Accumulator<T>;
  const int64_t at = SwiGluPlace<T>();
  Acc grad[kVector<T>], gate[kVector<T>], up[kVector<T>];
  Load(grad, a.grad, at, a.count);
  Load(gate, a.gate, at, a.count);
  Load(up, a.up, at, a.count);
#pragma unroll
  for (int e = 0; e < kVector<T>; ++e) {
    const Acc sigmoid = Div(Acc(1), Add(Acc(1), Exp(-gate[e]))), silu = Mul(gate[e], sigmoid);
    const Acc by_gate = Mul(grad[e], up[e]);
    up[e] = Mul(grad[e], silu);
    gate[e] = Mul(by_gate, MulAdd(silu, Add(Acc(1), -sigmoid), sigmoid));  // silu' = sigmoid + silu (1 - sigmoid)
  }
  Store(a.grad_gate, gate, at, a.count);
  Store(a.grad_up, up, at, a.count);
}

}  // namespace ingot::kernels::cuda
