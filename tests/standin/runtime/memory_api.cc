// The runtime's functions of memory.
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "standin/runtime/device.h"
#include "standin/runtime/graph.h"
#include "standin/runtime/memory.h"
#include "standin/runtime/settings.h"
#include "standin/runtime/streams.h"

using namespace ingot::standin;

namespace {

constexpr size_t kPage = 4096;

uint64_t Address(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }

bool OrderedToFail() {
  static std::atomic<int64_t> allocations{0};
  const int64_t number = ++allocations, from = GetSettings().first_failing_allocation;
  return number == GetSettings().failing_allocation || (from > 0 && number >= from);
}

// What each call that uses a device checks first: a fault of the device, and a capture that forbids the call.
cudaError_t Refuse(const char* call) {
  return DeviceFault() != cudaSuccess ? DeviceFault() : RefuseWhileCaptured(call);
}

// Where a copy reads or writes `bytes` at `pointer`, or null if that is no memory of a device.
std::byte* Place(const void* pointer, size_t bytes) {
  const uint64_t address = Address(pointer);
  return GetMemory().InWindow(address) ? GetMemory().At(address, bytes) : GetMemory().Reach(address);
}

bool Pageable(const void* pointer) {
  return !GetMemory().InWindow(Address(pointer)) && GetMemory().Find(Address(pointer)).kind == MemoryKind::kPageable;
}

// Work that copies. Pageable memory is read by the call itself, since the caller may change it as soon as the call has returned.
Work Copy(std::byte* to, const std::byte* from, size_t bytes, bool staged) {
  if (!staged) return [=] { std::memmove(to, from, bytes); };
  auto held = std::make_shared<std::vector<std::byte>>(from, from + bytes);
  return [=] { std::memcpy(to, held->data(), held->size()); };
}

// Copies from the host to a device, and bytes copied from devices to the host.
std::atomic<uint64_t> uploads{0}, downloaded_bytes{0};

cudaError_t QueueCopy(void* to, const void* from, size_t bytes, cudaStream_t handle) {
  if (DeviceFault() != cudaSuccess) return DeviceFault();
  const StreamPtr stream = GetStreams().Find(handle);
  if (stream == nullptr) return Fail(cudaErrorInvalidResourceHandle, "copy on no stream");
  if (bytes == 0) return cudaSuccess;
  std::byte *const target = Place(to, bytes), *const source = Place(from, bytes);
  if (target == nullptr || source == nullptr) {
    return Fail(cudaErrorInvalidValue, "copy of %zu bytes from %p to %p leaves an allocation", bytes, from, to);
  }
  const bool to_pageable = Pageable(to), from_pageable = Pageable(from);
  if (to_pageable || from_pageable) {
    if (const cudaError_t error = RefuseWhileCaptured("copy of pageable memory", stream); error != cudaSuccess) {
      return error;
    }
  }
  uploads += GetMemory().InWindow(Address(to)) && !GetMemory().InWindow(Address(from));
  if (!GetMemory().InWindow(Address(to)) && GetMemory().InWindow(Address(from))) downloaded_bytes += bytes;
  GetStreams().Push(stream, Copy(target, source, bytes, from_pageable && !to_pageable));
  if (to_pageable) GetStreams().WaitFor(stream);
  return DeviceFault();
}

}  // namespace

// For tests that count what a program copies.
extern "C" uint64_t ingot_standin_uploads() { return uploads; }
extern "C" uint64_t ingot_standin_downloaded_bytes() { return downloaded_bytes; }

cudaError_t cudaMalloc(void** pointer, size_t bytes) {
  *pointer = nullptr;
  if (const cudaError_t error = Refuse("cudaMalloc"); error != cudaSuccess) return error;
  if (bytes == 0) return cudaSuccess;
  if (OrderedToFail()) return Done(cudaErrorMemoryAllocation);
  const uint64_t address = GetMemory().AllocateOn(CurrentDevice(), bytes);
  if (address == 0) return Done(cudaErrorMemoryAllocation);
  *pointer = reinterpret_cast<void*>(address);
  return cudaSuccess;
}

cudaError_t cudaFree(void* pointer) {
  if (const cudaError_t error = Refuse("cudaFree"); error != cudaSuccess) return error;
  if (pointer == nullptr) return cudaSuccess;
  const MemoryRange range = GetMemory().Find(Address(pointer));
  if (range.kind != MemoryKind::kDevice) return Fail(cudaErrorInvalidValue, "cudaFree of %p", pointer);
  GetStreams().WaitForDevice(range.device);
  return GetMemory().Free(Address(pointer)) ? cudaSuccess : Fail(cudaErrorInvalidValue, "cudaFree inside of a block");
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  if (DeviceFault() != cudaSuccess) return DeviceFault();
  *free = GetMemory().FreeBytes(CurrentDevice());
  *total = GetSettings().memory_bytes;
  return cudaSuccess;
}

cudaError_t cudaHostAlloc(void** pointer, size_t bytes, unsigned) {
  if (const cudaError_t error = Refuse("cudaHostAlloc"); error != cudaSuccess) return error;
  if (OrderedToFail()) return Done(cudaErrorMemoryAllocation);
  const size_t rounded = (bytes + kPage - 1) / kPage * kPage;
  *pointer = std::aligned_alloc(kPage, rounded == 0 ? kPage : rounded);
  if (*pointer == nullptr) return Done(cudaErrorMemoryAllocation);
  std::memset(*pointer, 0xff, bytes);
  GetMemory().Pin(Address(*pointer), bytes == 0 ? 1 : bytes);
  return cudaSuccess;
}

cudaError_t cudaMallocHost(void** pointer, size_t bytes) { return cudaHostAlloc(pointer, bytes, 0); }

cudaError_t cudaFreeHost(void* pointer) {
  if (pointer == nullptr) return cudaSuccess;
  if (DeviceFault() != cudaSuccess) return DeviceFault();
  GetStreams().WaitForDevice(CurrentDevice());
  if (!GetMemory().UnpinAt(Address(pointer))) return Fail(cudaErrorInvalidValue, "cudaFreeHost of %p", pointer);
  std::free(pointer);
  return cudaSuccess;
}

cudaError_t cudaHostRegister(void* pointer, size_t bytes, unsigned) {
  GetMemory().Pin(Address(pointer), bytes);
  return cudaSuccess;
}

cudaError_t cudaHostUnregister(void* pointer) {
  GetStreams().WaitForDevice(CurrentDevice());
  return GetMemory().UnpinAt(Address(pointer)) ? cudaSuccess : Done(cudaErrorHostMemoryNotRegistered);
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  *attributes = {};
  const MemoryRange range = GetMemory().Find(Address(pointer));
  attributes->device = range.kind == MemoryKind::kPinned ? CurrentDevice() : range.device;
  attributes->type = range.kind == MemoryKind::kDevice   ? cudaMemoryTypeDevice
                     : range.kind == MemoryKind::kPinned ? cudaMemoryTypeHost
                                                         : cudaMemoryTypeUnregistered;
  if (range.kind != MemoryKind::kPageable) attributes->devicePointer = const_cast<void*>(pointer);
  if (range.kind != MemoryKind::kDevice) attributes->hostPointer = const_cast<void*>(pointer);
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
  return QueueCopy(to, from, bytes, stream);
}

cudaError_t cudaMemcpyPeerAsync(void* to, int, const void* from, int, size_t bytes, cudaStream_t stream) {
  return QueueCopy(to, from, bytes, stream);
}

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind) {
  if (const cudaError_t error = Refuse("cudaMemcpy"); error != cudaSuccess) return error;
  if (const cudaError_t error = QueueCopy(to, from, bytes, nullptr); error != cudaSuccess) return error;
  return cudaStreamSynchronize(nullptr);
}

cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t handle) {
  if (DeviceFault() != cudaSuccess) return DeviceFault();
  const StreamPtr stream = GetStreams().Find(handle);
  if (stream == nullptr) return Fail(cudaErrorInvalidResourceHandle, "cudaMemsetAsync on no stream");
  if (bytes == 0) return cudaSuccess;
  std::byte* const target = GetMemory().At(Address(to), bytes);
  if (target == nullptr)
    return Fail(cudaErrorInvalidValue, "cudaMemset of %zu bytes at %p leaves an allocation", bytes, to);
  GetStreams().Push(stream, [=] { std::memset(target, value, bytes); });
  return cudaSuccess;
}

cudaError_t cudaMemset(void* to, int value, size_t bytes) {
  if (const cudaError_t error = Refuse("cudaMemset"); error != cudaSuccess) return error;
  return cudaMemsetAsync(to, value, bytes, nullptr);
}
