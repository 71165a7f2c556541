#include "weights/byte_planes.h"

#include <cstring>

namespace ingot::weights {
namespace {

template <typename Element>
Element Load(const std::byte* from, int64_t index) {
  Element value;
  std::memcpy(&value, from + index * sizeof(Element), sizeof(Element));
  return value;
}

template <typename Element>
int64_t Count(const std::byte* a, const std::byte* b, int64_t elements) {
  int64_t changed = 0;
  constexpr int64_t kBlock = 4096;  // counted in 32 bits, which vectorizes better
  for (int64_t start = 0; start < elements; start += kBlock) {
    const int64_t end = start + kBlock < elements ? start + kBlock : elements;
    uint32_t block = 0;
    for (int64_t i = start; i < end; ++i) block += Load<Element>(a, i) != Load<Element>(b, i);
    changed += block;
  }
  return changed;
}

template <typename Element>
void ToPlanes(const std::byte* a, const std::byte* b, int64_t elements, std::byte* __restrict planes) {
  // Processes plane by plane within a block that fits into the L1 cache.
  constexpr int64_t kBlock = 2048;
  Element block[kBlock];
  for (int64_t start = 0; start < elements; start += kBlock) {
    const int64_t count = start + kBlock < elements ? kBlock : elements - start;
    for (int64_t i = 0; i < count; ++i) block[i] = Load<Element>(a, start + i) ^ Load<Element>(b, start + i);
    for (size_t plane = 0; plane < sizeof(Element); ++plane) {
      std::byte* out = planes + plane * elements + start;
      for (int64_t i = 0; i < count; ++i) out[i] = static_cast<std::byte>(block[i] >> (8 * plane));
    }
  }
}

template <typename Element>
void FromPlanes(const std::byte* base, const std::byte* planes, int64_t elements, std::byte* __restrict out) {
  for (int64_t i = 0; i < elements; ++i) {
    Element value = Load<Element>(base, i);
    for (size_t plane = 0; plane < sizeof(Element); ++plane) {
      value ^= static_cast<Element>(static_cast<Element>(planes[plane * elements + i]) << (8 * plane));
    }
    std::memcpy(out + i * sizeof(Element), &value, sizeof(Element));
  }
}

}  // namespace

int64_t CountChanged(const std::byte* a, const std::byte* b, int64_t elements, int64_t element_bytes) {
  return element_bytes == 4 ? Count<uint32_t>(a, b, elements) : Count<uint16_t>(a, b, elements);
}

void XorToPlanes(const std::byte* a, const std::byte* b, int64_t elements, int64_t element_bytes, std::byte* planes) {
  if (element_bytes == 4) {
    ToPlanes<uint32_t>(a, b, elements, planes);
  } else {
    ToPlanes<uint16_t>(a, b, elements, planes);
  }
}

void XorFromPlanes(const std::byte* base, const std::byte* planes, int64_t elements, int64_t element_bytes,
                   std::byte* out) {
  if (element_bytes == 4) {
    FromPlanes<uint32_t>(base, planes, elements, out);
  } else {
    FromPlanes<uint16_t>(base, planes, elements, out);
  }
}

}  // namespace ingot::weights
