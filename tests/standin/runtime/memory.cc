#include "standin/runtime/memory.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "standin/runtime/device.h"
#include "standin/runtime/settings.h"

namespace ingot::standin {
namespace {

constexpr size_t kAlignment = 256;

uint64_t Map(size_t bytes, int rights) {
  void* at = ::mmap(nullptr, bytes, rights, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) Die("cannot reserve %zu bytes of addresses: %s", bytes, std::strerror(errno));
  return reinterpret_cast<uint64_t>(at);
}

size_t RoundUp(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// The entry of `ranges` that holds `address`, or end.
std::map<uint64_t, size_t>::const_iterator Holding(const std::map<uint64_t, size_t>& ranges, uint64_t address) {
  auto next = ranges.upper_bound(address);
  if (next == ranges.begin()) return ranges.end();
  --next;
  return address - next->first < next->second ? next : ranges.end();
}

}  // namespace

AddressSpace::AddressSpace(int devices, size_t bytes_per_device)
    : per_device_(bytes_per_device), total_(static_cast<size_t>(devices) * bytes_per_device), devices_(devices) {
  if (total_ == 0) return;
  base_ = Map(total_, PROT_NONE);
  mirror_ = Map(total_, PROT_READ | PROT_WRITE);
  for (int d = 0; d < devices; ++d) devices_[d].begin = base_ + static_cast<size_t>(d) * per_device_;
}

uint64_t AddressSpace::Gap(const Device& device, size_t bytes) const {
  uint64_t candidate = device.begin;
  for (const auto& [begin, size] : device.live) {
    if (begin - candidate >= bytes) return candidate;
    candidate = begin + size;
  }
  return device.begin + per_device_ - candidate >= bytes ? candidate : 0;
}

uint64_t AddressSpace::AllocateOn(int device, size_t bytes) {
  const size_t rounded = RoundUp(bytes);
  if (rounded < bytes || rounded > per_device_) return 0;
  const std::lock_guard lock(mu_);
  Device& d = devices_[device];
  if (d.used + rounded + OtherBytes() > per_device_) return 0;
  const uint64_t begin = Gap(d, rounded);
  if (begin == 0) return 0;
  ++allocations_;
  d.live[begin] = rounded;
  d.asked[begin] = bytes;
  d.used += rounded;
  std::memset(Reach(begin), GetSettings().fresh_byte, rounded);
  return begin;
}

bool AddressSpace::Free(uint64_t address) {
  const std::lock_guard lock(mu_);
  if (!InWindow(address)) return false;
  Device& d = devices_[(address - base_) / per_device_];
  const auto found = d.live.find(address);
  if (found == d.live.end()) return false;
  d.used -= found->second;
  // Whole pages go back to the system.
  const uint64_t begin = (address - base_ + mirror_ + 4095) & ~uint64_t{4095};
  const uint64_t end = (address - base_ + mirror_ + found->second) & ~uint64_t{4095};
  if (end > begin) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
  d.asked.erase(address);
  d.live.erase(found);
  return true;
}

size_t AddressSpace::FreeBytes(int device) const {
  const std::lock_guard lock(mu_);
  const size_t taken = devices_[device].used + OtherBytes();
  return taken < per_device_ ? per_device_ - taken : 0;
}

size_t AddressSpace::OtherBytes() const {
  return allocations_ >= GetSettings().other_after ? GetSettings().other_bytes : 0;
}

void AddressSpace::Pin(uint64_t address, size_t bytes) {
  const std::lock_guard lock(mu_);
  pinned_[address] = bytes;
}

bool AddressSpace::UnpinAt(uint64_t address) {
  const std::lock_guard lock(mu_);
  return pinned_.erase(address) != 0;
}

MemoryRange AddressSpace::Find(uint64_t address) const {
  const std::lock_guard lock(mu_);
  if (InWindow(address)) {
    const auto index = static_cast<int>((address - base_) / per_device_);
    const auto& asked = devices_[index].asked;
    const auto found = Holding(asked, address);
    if (found != asked.end()) return {MemoryKind::kDevice, index, found->first, found->second};
  } else if (const auto found = Holding(pinned_, address); found != pinned_.end()) {
    return {MemoryKind::kPinned, -1, found->first, found->second};
  }
  return {};
}

std::byte* AddressSpace::Reach(uint64_t address) const {
  return reinterpret_cast<std::byte*>(InWindow(address) ? address - base_ + mirror_ : address);
}

std::byte* AddressSpace::At(uint64_t address, size_t bytes) {
  const MemoryRange range = Find(address);
  if (range.kind == MemoryKind::kPageable || address - range.begin + bytes > range.bytes) return nullptr;
  return Reach(address);
}

uint64_t AddressSpace::Allocate(size_t bytes, size_t alignment) {
  if (alignment > kAlignment) Die("a module's variable asks for an alignment of %zu bytes", alignment);
  const uint64_t address = AllocateOn(CurrentDevice(), bytes == 0 ? 1 : bytes);
  if (address == 0) Die("no device memory for a module's variable of %zu bytes", bytes);
  std::memset(Reach(address), 0, bytes);
  return address;
}

AddressSpace& GetMemory() {
  static auto* memory = new AddressSpace(GetSettings().devices, GetSettings().memory_bytes);
  return *memory;
}

}  // namespace ingot::standin
