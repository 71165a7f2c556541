// The memory of a device that torch can allocate.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>

namespace ingot::model {

// Returns the bytes that this process can still allocate on `device`: what the driver reports as free, and what torch's
// allocator holds for reuse. Another process may take it at any time. Creates the device's context. Throws c10::Error.
// REQUIRES: not a CPU.
int64_t AvailableDeviceMemory(at::Device device);

// Returns the largest number of bytes that this process's tensors have used on `device` at once. Throws c10::Error.
// REQUIRES: not a CPU.
int64_t PeakDeviceMemory(at::Device device);

// Returns the memory that torch's allocator holds for reuse to the driver, for other processes. Waits for the device.
// Throws c10::Error. REQUIRES: not a CPU.
void ReleaseDeviceMemory(at::Device device);

}  // namespace ingot::model
