#include "weights/change_mask.h"

#include <algorithm>
#include <bit>
#include <cstring>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace ingot::weights {
namespace {

constexpr int64_t kEntryWords = ChangeMask::kEntryWords;

// Returns the entry for 64 words.
uint64_t CompareEntry(const void* a, const void* b) {
#ifdef __SSE2__
  // Sixteen equal words give sixteen bits.
  const auto* x = static_cast<const __m128i*>(a);
  const auto* y = static_cast<const __m128i*>(b);
  uint64_t equal = 0;
  for (int i = 0; i < 4; ++i) {
    const __m128i low = _mm_cmpeq_epi16(_mm_loadu_si128(x + 2 * i), _mm_loadu_si128(y + 2 * i));
    const __m128i high = _mm_cmpeq_epi16(_mm_loadu_si128(x + 2 * i + 1), _mm_loadu_si128(y + 2 * i + 1));
    const auto bits = static_cast<uint32_t>(_mm_movemask_epi8(_mm_packs_epi16(low, high)));
    equal |= static_cast<uint64_t>(bits) << (16 * i);
  }
  return ~equal;
#else
  uint16_t x[kEntryWords], y[kEntryWords];
  std::memcpy(x, a, sizeof(x));
  std::memcpy(y, b, sizeof(y));
  uint64_t changed = 0;
  for (int64_t i = 0; i < kEntryWords; ++i) changed |= static_cast<uint64_t>(x[i] != y[i]) << i;
  return changed;
#endif
}

// Returns a tensor's last entry, for `words` < 64.
uint64_t CompareRest(const void* a, const void* b, int64_t words) {
  uint16_t x[kEntryWords] = {}, y[kEntryWords] = {};
  std::memcpy(x, a, static_cast<size_t>(words) * sizeof(uint16_t));
  std::memcpy(y, b, static_cast<size_t>(words) * sizeof(uint16_t));
  return CompareEntry(x, y);
}

void RoundWords(const float* from, int64_t words, uint16_t* to) {
  for (int64_t i = 0; i < words; ++i) {
    const auto bits = std::bit_cast<uint32_t>(from[i]);
    const uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    to[i] = static_cast<uint16_t>((bits & 0x7fffffff) > 0x7f800000 ? 0x7fc0 : rounded);
  }
}

uint16_t Word(const std::byte* from, int64_t index) {
  uint16_t word;
  std::memcpy(&word, from + index * static_cast<int64_t>(sizeof(word)), sizeof(word));
  return word;
}

}  // namespace

void CompareWords(const std::byte* a, const std::byte* b, int64_t words, uint64_t* entries) {
  constexpr int64_t kBytes = kEntryWords * static_cast<int64_t>(sizeof(uint16_t));
  const int64_t whole = words / kEntryWords, rest = words % kEntryWords;
  for (int64_t e = 0; e < whole; ++e) entries[e] = CompareEntry(a + e * kBytes, b + e * kBytes);
  if (rest > 0) entries[whole] = CompareRest(a + whole * kBytes, b + whole * kBytes, rest);
}

void RoundToBfloat16(const float* from, int64_t words, const uint16_t* before, uint16_t* to, uint64_t* entries) {
  for (int64_t start = 0, e = 0; start < words; start += kEntryWords, ++e) {
    const int64_t count = std::min(kEntryWords, words - start);
    uint16_t rounded[kEntryWords];
    RoundWords(from + start, count, rounded);
    const uint64_t changed =
        count == kEntryWords ? CompareEntry(rounded, before + start) : CompareRest(rounded, before + start, count);
    if (changed == 0 && to == before) continue;  // true for most entries, whose memory stays clean
    std::memcpy(to + start, rounded, static_cast<size_t>(count) * sizeof(uint16_t));
    if (changed != 0) entries[e] |= changed;
  }
}

int64_t CountChangedWords(const std::byte* a, const std::byte* b, std::span<const uint64_t> entries) {
  int64_t changed = 0;
  for (size_t e = 0; e < entries.size(); ++e) {
    for (uint64_t bits = entries[e]; bits != 0; bits &= bits - 1) {
      const int64_t word = static_cast<int64_t>(e) * kEntryWords + std::countr_zero(bits);
      changed += Word(a, word) != Word(b, word);
    }
  }
  return changed;
}

}  // namespace ingot::weights
