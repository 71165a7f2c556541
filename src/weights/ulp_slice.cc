#include "weights/ulp_slice.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#endif

#include "weights/change_mask.h"
#include "weights/delta_payload.h"

namespace ingot::weights {
namespace {

constexpr int64_t kEntryWords = ChangeMask::kEntryWords;
constexpr uint64_t kEscape = 255;
constexpr size_t kAhead = 16;  // entries to prefetch

uint16_t LoadWord(const std::byte* from, int64_t index) {
  uint16_t word;
  std::memcpy(&word, from + index * kWordBytes, sizeof(word));
  return word;
}

// Return a bit pattern's rank in floating-point order, and the pattern with a given rank.
uint16_t RankOf(uint16_t word) {
  return static_cast<uint16_t>(word ^ (static_cast<uint16_t>(static_cast<int16_t>(word) >> 15) | 0x8000));
}
uint16_t WordOf(uint16_t rank) {
  return static_cast<uint16_t>(rank ^ (static_cast<uint16_t>(~(static_cast<int16_t>(rank) >> 15)) | 0x8000));
}

std::string_view AsText(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

uint64_t ByteAt(std::string_view bytes, size_t index) { return static_cast<unsigned char>(bytes[index]); }

// Prefetches the cache lines with marked words in the entry 2 KiB ahead. Marks are too far apart for the CPU's
// prefetcher.
inline void Prefetch(const std::byte* base, const std::byte* target, std::span<const uint64_t> entries, size_t e) {
  constexpr int64_t kLineWords = 32;
  if (e + kAhead >= entries.size()) return;
  for (int64_t line = 0; line < kEntryWords / kLineWords; ++line) {
    if (static_cast<uint32_t>(entries[e + kAhead] >> (line * kLineWords)) == 0) continue;
    const int64_t at = (static_cast<int64_t>(e + kAhead) * kEntryWords + line * kLineWords) * kWordBytes;
    __builtin_prefetch(base + at);
    __builtin_prefetch(target + at);
  }
}

// The ends of a slice's three streams.
struct ChangeStreams {
  std::byte *gap, *length, *sign;
  int64_t next = 0;     // the word after the last changed word
  uint64_t signs = 0;   // not written yet
  int64_t waiting = 0;  // number of pending signs; < 64
  int64_t written = 0;  // number of written signs

  // Adds the gap for one word. `word` becomes the last changed one.
  void AddGap(int64_t word) {
    auto left = static_cast<uint64_t>(word - next);
    for (; left >= kEscape; left -= kEscape) *gap++ = std::byte{kEscape};
    *gap++ = static_cast<std::byte>(left);
    next = word + 1;
  }
  void AddLength(int16_t moved) {
    const auto left = static_cast<uint64_t>(std::abs(int{moved}) - 1);
    *length++ = static_cast<std::byte>(std::min(left, kEscape));
    if (left < kEscape) return;
    *length++ = static_cast<std::byte>(left);
    *length++ = static_cast<std::byte>(left >> 8);
  }
  // Adds `count` signs, 1 to 64, from the low bits. The other bits must be 0.
  void AddSigns(uint64_t bits, int64_t count) {
    signs |= bits << waiting;
    if (waiting + count < 64) {
      waiting += count;
      return;
    }
    std::memcpy(sign, &signs, sizeof(signs));
    sign += sizeof(signs);
    written += 64;
    signs = waiting == 0 ? 0 : bits >> (64 - waiting);
    waiting += count - 64;
  }
  // Returns the number of changes.
  int64_t Finish() {
    std::memcpy(sign, &signs, sizeof(signs));
    return written + waiting;
  }
};

int16_t Moved(const std::byte* base, const std::byte* target, int64_t word) {
  return static_cast<int16_t>(RankOf(LoadWord(target, word)) - RankOf(LoadWord(base, word)));
}

void AppendEntry(const std::byte* base, const std::byte* target, int64_t e, uint64_t entry, ChangeStreams& streams) {
  for (uint64_t bits = entry; bits != 0; bits &= bits - 1) {
    const int64_t word = e * kEntryWords + std::countr_zero(bits);
    const int16_t moved = Moved(base, target, word);
    if (moved == 0) continue;  // marked, but equal
    streams.AddGap(word);
    streams.AddSigns(moved < 0 ? 1 : 0, 1);
    streams.AddLength(moved);
  }
}

#if defined(__x86_64__) && defined(__GNUC__)
#define INGOT_VECTORS __attribute__((target("avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2,bmi,bmi2,popcnt,lzcnt")))

const bool kHasVectors = __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
                         __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vbmi2") &&
                         __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("popcnt");

INGOT_VECTORS inline __m512i RanksOf(__m512i words) {
  const __m512i sign = _mm512_srai_epi16(words, 15);
  return _mm512_xor_si512(words, _mm512_or_si512(sign, _mm512_set1_epi16(static_cast<int16_t>(0x8000))));
}

// Returns the distances of 32 words.
INGOT_VECTORS inline __m512i Distances(const std::byte* base, const std::byte* target) {
  return _mm512_sub_epi16(RanksOf(_mm512_loadu_si512(target)), RanksOf(_mm512_loadu_si512(base)));
}

INGOT_VECTORS inline uint64_t Join(__mmask32 low, __mmask32 high) {
  return static_cast<uint64_t>(low) | static_cast<uint64_t>(high) << 32;
}

// Prefetches the whole entry 2 KiB ahead, because the vectors read all of it.
inline void PrefetchWhole(const std::byte* base, const std::byte* target, std::span<const uint64_t> entries, size_t e) {
  if (e + kAhead >= entries.size() || entries[e + kAhead] == 0) return;
  constexpr int64_t kEntryBytes = kEntryWords * kWordBytes;
  const int64_t at = static_cast<int64_t>(e + kAhead) * kEntryBytes;
  for (int64_t line = 0; line < kEntryBytes; line += 64) {
    __builtin_prefetch(base + at + line);
    __builtin_prefetch(target + at + line);
  }
}

// Same as AppendEntry, but for all entries, 64 words at a time.
INGOT_VECTORS void AppendByVectors(const std::byte* base, const std::byte* target, int64_t words,
                                   std::span<const uint64_t> entries, ChangeStreams& streams) {
  alignas(64) int8_t numbers[kEntryWords];
  for (int8_t i = 0; i < kEntryWords; ++i) numbers[i] = i;
  const __m512i iota = _mm512_load_si512(numbers), ones = _mm512_set1_epi8(1), one = _mm512_set1_epi16(1);
  const __m512i before = _mm512_sub_epi8(iota, ones), escape = _mm512_set1_epi16(kEscape);
  for (size_t e = 0; e < entries.size(); ++e) {
    PrefetchWhole(base, target, entries, e);
    const int64_t start = static_cast<int64_t>(e) * kEntryWords;
    if (entries[e] == 0) continue;
    if (words - start < kEntryWords) {
      AppendEntry(base, target, static_cast<int64_t>(e), entries[e], streams);
      continue;
    }
    const std::byte *const x = base + start * kWordBytes, *const y = target + start * kWordBytes;
    const __m512i low = Distances(x, y), high = Distances(x + 64, y + 64);
    const uint64_t changed = entries[e] & Join(_mm512_test_epi16_mask(low, low), _mm512_test_epi16_mask(high, high));
    if (changed == 0) continue;
    const int count = std::popcount(changed);

    // The first gap extends into earlier entries. Each other gap is the difference of two positions.
    const __m512i positions = _mm512_maskz_compress_epi8(changed, iota);
    const __m512i distances = _mm512_sub_epi8(positions, _mm512_permutexvar_epi8(before, positions));
    streams.AddGap(start + std::countr_zero(changed));
    _mm512_storeu_si512(streams.gap - 1, _mm512_mask_mov_epi8(_mm512_sub_epi8(distances, ones), 1,
                                                              _mm512_set1_epi8(static_cast<int8_t>(streams.gap[-1]))));
    streams.gap += count - 1;
    streams.next = start + kEntryWords - std::countl_zero(changed);

    streams.AddSigns(_pext_u64(Join(_mm512_movepi16_mask(low), _mm512_movepi16_mask(high)), changed), count);

    const __m512i low_length = _mm512_sub_epi16(_mm512_abs_epi16(low), one);
    const __m512i high_length = _mm512_sub_epi16(_mm512_abs_epi16(high), one);
    const uint64_t long_ones =
        changed & Join(_mm512_cmpge_epu16_mask(low_length, escape), _mm512_cmpge_epu16_mask(high_length, escape));
    if (long_ones == 0) {
      const __m512i lengths = _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtepi16_epi8(low_length)),
                                                 _mm512_cvtepi16_epi8(high_length), 1);
      _mm512_storeu_si512(streams.length, _mm512_maskz_compress_epi8(changed, lengths));
      streams.length += count;
    } else {
      for (uint64_t bits = changed; bits != 0; bits &= bits - 1) {
        streams.AddLength(Moved(base, target, start + std::countr_zero(bits)));
      }
    }
  }
}
#undef INGOT_VECTORS
#else
const bool kHasVectors = false;
void AppendByVectors(const std::byte*, const std::byte*, int64_t, std::span<const uint64_t>, ChangeStreams&) {}
#endif

absl::Status Broken(std::string_view what) {
  return absl::DataLossError(absl::StrCat("slice of changes: ", std::string(what)));
}

}  // namespace

void AppendVarint(uint64_t value, std::string& out) {
  for (; value >= 128; value >>= 7) out.push_back(static_cast<char>(value | 128));
  out.push_back(static_cast<char>(value));
}

absl::StatusOr<uint64_t> TakeVarint(std::string_view& bytes) {
  uint64_t value = 0;
  for (int shift = 0; shift < 64 && !bytes.empty(); shift += 7) {
    const uint64_t byte = ByteAt(bytes, 0);
    bytes.remove_prefix(1);
    if (shift == 63 && byte > 1) break;
    value |= (byte & 127) << shift;
    if (byte < 128) return value;
  }
  return absl::DataLossError("payload has an invalid number");
}

// --- Encoding ---

int64_t UlpEncoder::Encode(const std::byte* base, const std::byte* target, int64_t words, const uint64_t* marks,
                           std::string& out) {
  const auto size = static_cast<size_t>((words + kEntryWords - 1) / kEntryWords);
  if (marks == nullptr) {
    compared_.resize(size);
    CompareWords(base, target, words, compared_.data());
    marks = compared_.data();
  }
  const int64_t changed = Collect(base, target, words, {marks, size});
  if (changed == 0) return 0;
  AppendVarint(static_cast<uint64_t>(changed), out);
  AppendStream(std::span(gaps_).first(gap_bytes_), out);
  out.append(AsText(std::span(signs_).first(static_cast<size_t>(changed + 7) / 8)));
  AppendStream(std::span(lengths_).first(length_bytes_), out);
  return changed;
}

bool UlpEncoder::HasVectors() { return kHasVectors; }

int64_t UlpEncoder::Collect(const std::byte* base, const std::byte* target, int64_t words,
                            std::span<const uint64_t> entries) {
  // Space for changing every word, plus one additional vector. It only grows, because a resize clears memory.
  const auto most = static_cast<size_t>(words);
  if (signs_.size() < most / 8 + 16) {
    gaps_.resize(most + most / kEscape + 1 + kEntryWords);
    lengths_.resize(3 * most + kEntryWords);
    signs_.resize(most / 8 + 16);
  }
  ChangeStreams streams{.gap = gaps_.data(), .length = lengths_.data(), .sign = signs_.data()};
  if (vectors_) {
    AppendByVectors(base, target, words, entries, streams);
  } else {
    for (size_t e = 0; e < entries.size(); ++e) {
      Prefetch(base, target, entries, e);
      AppendEntry(base, target, static_cast<int64_t>(e), entries[e], streams);
    }
  }
  gap_bytes_ = static_cast<size_t>(streams.gap - gaps_.data());
  length_bytes_ = static_cast<size_t>(streams.length - lengths_.data());
  return streams.Finish();
}

void UlpEncoder::AppendStream(std::span<const std::byte> bytes, std::string& out) {
  AppendVarint(bytes.size(), out);
  std::string packed;
  if (zstd_.Compress(bytes, level_, bytes.size(), packed)) {
    AppendVarint(packed.size(), out);
    out += packed;
  } else {
    AppendVarint(0, out);
    out.append(AsText(bytes));
  }
}

// --- Decoding ---

absl::StatusOr<std::string_view> UlpDecoder::TakeStream(std::string_view& slice, size_t limit,
                                                        std::vector<std::byte>& unpacked) {
  INGOT_ASSIGN_OR_RETURN(const uint64_t bytes, TakeVarint(slice));
  INGOT_ASSIGN_OR_RETURN(const uint64_t stored, TakeVarint(slice));
  if (bytes > limit || (stored == 0 ? bytes : stored) > slice.size()) return Broken("a stream has the wrong length");
  const std::string_view body = slice.substr(0, stored == 0 ? bytes : stored);
  slice.remove_prefix(body.size());
  if (stored == 0) return body;
  unpacked.resize(bytes);
  INGOT_RETURN_IF_ERROR(zstd_.Decompress(body, unpacked));
  return AsText(unpacked);
}

absl::Status UlpDecoder::Decode(std::string_view slice, std::span<std::byte> words) {
  const uint64_t size = words.size() / kWordBytes;
  INGOT_ASSIGN_OR_RETURN(const uint64_t count, TakeVarint(slice));
  if (count == 0 || count > size) return Broken(absl::StrCat(count, " changes among ", size, " words"));
  INGOT_ASSIGN_OR_RETURN(const std::string_view gaps, TakeStream(slice, count + size / kEscape, gaps_));
  const size_t sign_bytes = (count + 7) / 8;
  if (slice.size() < sign_bytes) return Broken("it is truncated");
  const std::string_view signs = slice.substr(0, sign_bytes);
  slice.remove_prefix(sign_bytes);
  INGOT_ASSIGN_OR_RETURN(const std::string_view lengths, TakeStream(slice, 3 * count, lengths_));
  if (!slice.empty()) return Broken("it has the wrong length");

  size_t gap_at = 0, length_at = 0;
  uint64_t word = 0;
  for (uint64_t i = 0; i < count; ++i, ++word) {
    uint64_t gap = kEscape;
    for (; gap == kEscape; word += gap) {
      if (gap_at == gaps.size()) return Broken("it has too few gaps");
      gap = ByteAt(gaps, gap_at++);
    }
    if (word >= size) return Broken("it points past its words");
    if (length_at == lengths.size()) return Broken("it has too few distances");
    uint64_t length = ByteAt(lengths, length_at++);
    if (length == kEscape) {
      if (lengths.size() - length_at < 2) return Broken("it has too few distances");
      length = ByteAt(lengths, length_at) | ByteAt(lengths, length_at + 1) << 8;
      length_at += 2;
    }
    const bool down = (ByteAt(signs, i / 8) >> (i % 8) & 1) != 0;
    std::byte* const place = words.data() + word * kWordBytes;
    const auto moved = static_cast<uint16_t>(length + 1);
    const uint16_t rank = RankOf(LoadWord(place, 0));
    const uint16_t changed = WordOf(static_cast<uint16_t>(down ? rank - moved : rank + moved));
    std::memcpy(place, &changed, sizeof(changed));
  }
  if (gap_at != gaps.size() || length_at != lengths.size()) return Broken("it has more data than its changes");
  return absl::OkStatus();
}

}  // namespace ingot::weights
