#pragma once

#include <cuda_runtime_api.h>

// The calling thread's device and last error, and what a device can do.
namespace ingot::standin {

int CurrentDevice();
void SetCurrentDevice(int device);

// Remembers `error` as the calling thread's last one unless it is cudaSuccess, and returns it. `why` goes to stderr, since the runtime's
// own errors are words without a place.
cudaError_t Done(cudaError_t error);
cudaError_t Fail(cudaError_t error, const char* why, ...) __attribute__((format(printf, 2, 3)));
cudaError_t LastError(bool clear);

// A fault of the device, as of a kernel that accesses memory which is not its own: sticky, so that each later call which uses the device
// returns it and no queued work runs. cudaSuccess = none. Thread-safe.
void BreakDevice(cudaError_t fault);
cudaError_t DeviceFault();

// What a device's multiprocessors hold (CUDA C++ Programming Guide, Compute Capabilities).
struct Model {
  int multiprocessors;
  size_t block_shared;     // bytes of shared memory, the most of a block
  size_t shared;           // bytes of shared memory of a multiprocessor
  size_t reserved_shared;  // bytes that the driver takes of each block's share
  unsigned threads;        // of a multiprocessor
  unsigned blocks;         // of a multiprocessor
};
Model CurrentModel();

// What a block may take: shared memory without and with cudaFuncSetAttribute, in bytes.
constexpr size_t kSharedBytes = 48 << 10;
size_t MostSharedBytes();

}  // namespace ingot::standin
