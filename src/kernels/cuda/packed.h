// Packs vectors into one block of memory, so that copying them to a device takes one transfer.
#pragma once

#include <cstddef>
#include <cstring>
#include <tuple>
#include <vector>

namespace ingot::kernels::cuda {

inline size_t PaddedBytes(size_t bytes) { return (bytes + 15) / 16 * 16; }

template <typename... T>
size_t PackedBytes(const std::vector<T>&... parts) {
  return (PaddedBytes(parts.size() * sizeof(T)) + ...);
}

// Writes PackedBytes(parts...) bytes. Every part starts at a multiple of 16 bytes.
template <typename... T>
void PackParts(std::byte* to, const std::vector<T>&... parts) {
  const auto pack = [&to](const void* data, size_t bytes) {
    if (bytes > 0) std::memcpy(to, data, bytes);
    to += PaddedBytes(bytes);
  };
  (pack(parts.data(), parts.size() * sizeof(T)), ...);
}

// Returns pointers to the parts in a packed copy at `base`.
template <typename... T>
std::tuple<const T*...> ViewParts(const std::byte* base, const std::vector<T>&... parts) {
  const auto skip = [&base](size_t bytes) {
    const std::byte* const at = base;
    base += PaddedBytes(bytes);
    return at;
  };
  return {reinterpret_cast<const T*>(skip(parts.size() * sizeof(T)))...};
}

}  // namespace ingot::kernels::cuda
