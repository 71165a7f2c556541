// Launches a kernel after checking what a launch requires. Compiled by nvcc only.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

namespace ingot::kernels::cuda {

// Returns whether vector accesses of 16 bytes may use the pointer.
inline bool Aligned(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer) % 16 == 0; }

// Launches `kernel` with `shared_bytes` of dynamic shared memory. Asynchronous. Returns cudaErrorInvalidConfiguration
// for a grid or a block that CUDA does not allow, and the runtime's error if the device lacks the shared memory.
template <typename... Parameters>
cudaError_t Launch(void (*kernel)(Parameters...), dim3 grid, unsigned threads, size_t shared_bytes, cudaStream_t stream,
                   const Parameters&... parameters) {
  constexpr size_t kDefaultSharedBytes = 48 << 10;  // more must be requested
  constexpr unsigned kMaxX = 0x7fffffff, kMaxY = 65535, kMaxThreads = 1024;
  const bool valid = grid.x > 0 && grid.x <= kMaxX && grid.y > 0 && grid.y <= kMaxY && grid.z > 0 && grid.z <= kMaxY &&
                     threads > 0 && threads <= kMaxThreads && threads % 32 == 0;
  if (!valid) return cudaErrorInvalidConfiguration;
  if (shared_bytes > kDefaultSharedBytes) {
    const cudaError_t error =
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes));
    if (error != cudaSuccess) return error;
  }
  kernel<<<grid, threads, shared_bytes, stream>>>(parameters...);
  return cudaGetLastError();
}

}  // namespace ingot::kernels::cuda
