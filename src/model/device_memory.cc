#include "model/device_memory.h"

#include <ATen/Context.h>
#include <c10/core/CachingDeviceAllocator.h>

namespace ingot::model {

int64_t AvailableDeviceMemory(at::Device device) {
  constexpr auto kAll = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  at::globalContext().lazyInitDevice(device.type());
  c10::DeviceAllocator* const allocator = c10::getDeviceAllocator(device.type());
  const c10::DeviceIndex index = device.has_index() ? device.index() : c10::DeviceIndex{0};
  const auto free = static_cast<int64_t>(allocator->getMemoryInfo(index).first);
  const auto stats = allocator->getDeviceStats(index);
  return free + stats.reserved_bytes[kAll].current - stats.allocated_bytes[kAll].current;
}

}  // namespace ingot::model
