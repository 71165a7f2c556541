// Implements the delta codec's loops over every byte in a model. Works on raw memory with elements of 2 or 4 bytes, and
// does not allocate. Planes are element bytes grouped by position: all first bytes, then all second bytes, and so on.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ingot::weights {

// Returns the number of elements that differ.
int64_t CountChanged(const std::byte* a, const std::byte* b, int64_t elements, int64_t element_bytes);

// planes = group(a XOR b).
void XorToPlanes(const std::byte* a, const std::byte* b, int64_t elements, int64_t element_bytes, std::byte* planes);

// out = base XOR ungroup(planes). `out` must not overlap either input.
void XorFromPlanes(const std::byte* base, const std::byte* planes, int64_t elements, int64_t element_bytes,
                   std::byte* out);

// Calls fn(index) for every element that differs, in order.
template <typename Element, typename Fn>
void ForEachChanged(const std::byte* a, const std::byte* b, int64_t elements, Fn&& fn);

}  // namespace ingot::weights

#include <cstring>

namespace ingot::weights {

template <typename Element, typename Fn>
void ForEachChanged(const std::byte* a, const std::byte* b, int64_t elements, Fn&& fn) {
  constexpr int64_t kBlock = 64;  // most blocks are unchanged, and memcmp skips them quickly
  for (int64_t start = 0; start < elements; start += kBlock) {
    const int64_t end = start + kBlock < elements ? start + kBlock : elements;
    if (std::memcmp(a + start * sizeof(Element), b + start * sizeof(Element), (end - start) * sizeof(Element)) == 0) {
      continue;
    }
    for (int64_t i = start; i < end; ++i) {
      Element x, y;
      std::memcpy(&x, a + i * sizeof(Element), sizeof(Element));
      std::memcpy(&y, b + i * sizeof(Element), sizeof(Element));
      if (x != y) fn(i);
    }
  }
}

}  // namespace ingot::weights
