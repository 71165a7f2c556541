#include "model/device_memory.h"

#include <ATen/Context.h>
#include <c10/core/CachingDeviceAllocator.h>

namespace ingot::model {
namespace {

constexpr auto kAllPools = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);

c10::DeviceIndex IndexOf(at::Device device) { return device.has_index() ? device.index() : c10::DeviceIndex{0}; }

// Creates the device's context.
c10::DeviceAllocator& AllocatorOf(at::Device device) {
  at::globalContext().lazyInitDevice(device.type());
  return *c10::getDeviceAllocator(device.type());
}

}  // namespace

int64_t AvailableDeviceMemory(at::Device device) {
  c10::DeviceAllocator& allocator = AllocatorOf(device);
  const auto free = static_cast<int64_t>(allocator.getMemoryInfo(IndexOf(device)).first);
  const auto stats = allocator.getDeviceStats(IndexOf(device));
  return free + stats.reserved_bytes[kAllPools].current - stats.allocated_bytes[kAllPools].current;
}

int64_t PeakDeviceMemory(at::Device device) {
  return AllocatorOf(device).getDeviceStats(IndexOf(device)).allocated_bytes[kAllPools].peak;
}

void ReleaseDeviceMemory(at::Device device) { AllocatorOf(device).emptyCache(); }

}  // namespace ingot::model
