#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "standin/ptx/machine.h"

// The memory of all devices, and the pinned memory of the host.
//
//   window   [base, base + devices x bytes)   device pointers; no access right, so that a host access dies (fault.h)
//   mirror   the same length elsewhere        where kernels, copies and the operators' fallback read and write
//
// A device's part of the window is its whole memory: allocations are cut from it first-fit, aligned to 256 bytes as cudaMalloc's are.
// Fresh memory is filled with bytes of 0xff, which is not-a-number in every floating-point type. Thread-safe.
namespace ingot::standin {

enum class MemoryKind { kPageable, kPinned, kDevice };

struct MemoryRange {
  MemoryKind kind = MemoryKind::kPageable;
  int device = -1;  // kDevice: its device
  uint64_t begin = 0;
  size_t bytes = 0;
};

class AddressSpace : public ptx::Memory {
 public:
  AddressSpace(int devices, size_t bytes_per_device);

  // Returns an address of `device`, or 0 if its memory has no gap that large.
  uint64_t AllocateOn(int device, size_t bytes);
  // Returns false unless `address` is the begin of an allocation.
  bool Free(uint64_t address);
  size_t FreeBytes(int device) const;

  // Pinned memory of the host. UnpinAt returns false unless `address` is the begin of a pinned range.
  void Pin(uint64_t address, size_t bytes);
  bool UnpinAt(uint64_t address);

  // The range that holds `address`. kPageable if no allocation and no pinned range does.
  MemoryRange Find(uint64_t address) const;
  bool InWindow(uint64_t address) const { return address - base_ < total_; }

  // Where the process may access `address`: the mirror's address for one in the window, else the same.
  std::byte* Reach(uint64_t address) const;

  // ptx::Memory. Kernels may access device memory and pinned memory. Allocate takes memory of the calling thread's device.
  std::byte* At(uint64_t address, size_t bytes) override;
  uint64_t Allocate(size_t bytes, size_t alignment) override;

 private:
  struct Device {
    uint64_t begin = 0;
    std::map<uint64_t, size_t> live;   // begin -> bytes, rounded up to the alignment
    std::map<uint64_t, size_t> asked;  // begin -> bytes
    size_t used = 0;
  };
  uint64_t Gap(const Device& device, size_t bytes) const;
  size_t OtherBytes() const;  // that another process has taken of each device

  size_t per_device_;
  size_t total_;
  uint64_t base_ = 0;
  uint64_t mirror_ = 0;
  mutable std::mutex mu_;
  int64_t allocations_ = 0;            // of device memory, ever; guarded by mu_
  std::vector<Device> devices_;        // guarded by mu_
  std::map<uint64_t, size_t> pinned_;  // guarded by mu_
};

// The process's address space, as GetSettings orders it.
AddressSpace& GetMemory();

}  // namespace ingot::standin
