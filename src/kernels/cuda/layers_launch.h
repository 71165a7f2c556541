// Launches the CUDA kernels of a layer's parts between its products. Asynchronous: all memory must remain valid until
// the stream has executed them. T is float, double, or BFloat16. No rows = nothing is computed, and gradients of
// weights are 0. They return cudaErrorInvalidConfiguration for more than 2^31 - 1 blocks.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/layers_args.h"

namespace ingot::kernels::cuda {

template <typename T>
cudaError_t LaunchNorm(const NormArgs<T>& args, cudaStream_t stream);
template <typename T>
cudaError_t LaunchNormGradient(const NormGradientArgs<T>& args, T* grad_weight, cudaStream_t stream);

// Returns the runtime's error if a head is too wide for the device's shared memory.
template <typename T>
cudaError_t LaunchHeads(const HeadArgs<T>& args, cudaStream_t stream);
template <typename T>
cudaError_t LaunchHeadGradient(const HeadGradientArgs<T>& args, T* grad_weight, cudaStream_t stream);

template <typename T>
cudaError_t LaunchSwiGlu(const SwiGluArgs<T>& args, cudaStream_t stream);
template <typename T>
cudaError_t LaunchSwiGluGradient(const SwiGluGradientArgs<T>& args, cudaStream_t stream);

}  // namespace ingot::kernels::cuda
