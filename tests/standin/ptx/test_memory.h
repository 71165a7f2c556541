// Device memory for tests: buffers at made-up addresses, apart from each other.
#pragma once

#include <cstring>
#include <map>
#include <span>
#include <vector>

#include "standin/ptx/machine.h"

namespace ingot::standin::ptx {

class TestMemory final : public Memory {
 public:
  std::byte* At(uint64_t address, size_t bytes) override {
    auto after = buffers_.upper_bound(address);
    if (after == buffers_.begin()) return nullptr;
    auto& [begin, data] = *--after;
    const uint64_t offset = address - begin;
    return offset <= data.size() && data.size() - offset >= bytes ? data.data() + offset : nullptr;
  }

  uint64_t Allocate(size_t bytes, size_t alignment) override {
    const uint64_t address = (next_ + alignment - 1) / alignment * alignment;
    buffers_[address].resize(bytes);
    next_ = (address + bytes + 4096) / 256 * 256;
    return address;
  }

  // A copy of `values`, or an empty buffer's null.
  template <typename T>
  uint64_t Put(std::span<const T> values) {
    if (values.empty()) return 0;
    const uint64_t address = Allocate(values.size_bytes(), 256);
    std::memcpy(At(address, values.size_bytes()), values.data(), values.size_bytes());
    return address;
  }
  template <typename T>
  std::vector<T> Get(uint64_t address, size_t count) {
    std::vector<T> values(count);
    if (count != 0) std::memcpy(values.data(), At(address, count * sizeof(T)), count * sizeof(T));
    return values;
  }

 private:
  std::map<uint64_t, std::vector<std::byte>> buffers_;
  uint64_t next_ = 0x10000;
};

}  // namespace ingot::standin::ptx
