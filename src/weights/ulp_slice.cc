#include "weights/ulp_slice.h"

#include <bit>
#include <cstdlib>
#include <cstring>

#include "weights/change_mask.h"
#include "weights/delta_payload.h"

namespace ingot::weights {
namespace {

constexpr int64_t kEntryWords = ChangeMask::kEntryWords;
constexpr uint64_t kEscape = 255;

uint16_t LoadWord(const std::byte* from, int64_t index) {
  uint16_t word;
  std::memcpy(&word, from + index * kWordBytes, sizeof(word));
  return word;
}

// The number of a bit pattern in the order of the floats, and back.
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

// Reads ahead the cache lines of an entry that have marked words. Marks are too far apart for the processor to foresee.
void Prefetch(const std::byte* base, const std::byte* target, uint64_t entry, int64_t index) {
  constexpr int64_t kLineWords = 32;
  for (int64_t line = 0; line < kEntryWords / kLineWords; ++line) {
    if (static_cast<uint32_t>(entry >> (line * kLineWords)) == 0) continue;
    const int64_t at = (index * kEntryWords + line * kLineWords) * kWordBytes;
    __builtin_prefetch(base + at);
    __builtin_prefetch(target + at);
  }
}

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
  return absl::DataLossError("payload has a broken number");
}

// --- encoding ---

int64_t UlpEncoder::Encode(const std::byte* base, const std::byte* target, int64_t words, const uint64_t* marks,
                           std::string& out) {
  const auto size = static_cast<size_t>((words + kEntryWords - 1) / kEntryWords);
  if (marks == nullptr) {
    compared_.resize(size);
    CompareWords(base, target, words, compared_.data());
    marks = compared_.data();
  }
  const int64_t changed = Collect(base, target, {marks, size});
  if (changed == 0) return 0;
  AppendVarint(static_cast<uint64_t>(changed), out);
  AppendStream(std::span(gaps_).first(gap_bytes_), out);
  out.append(AsText(std::span(signs_).first(static_cast<size_t>(changed + 7) / 8)));
  AppendStream(std::span(lengths_).first(length_bytes_), out);
  return changed;
}

int64_t UlpEncoder::Collect(const std::byte* base, const std::byte* target, std::span<const uint64_t> entries) {
  size_t most = 0;
  for (const uint64_t entry : entries) most += static_cast<size_t>(std::popcount(entry));
  gaps_.resize(most + entries.size() * kEntryWords / kEscape + 1);
  lengths_.resize(3 * most);
  signs_.assign((most + 7) / 8, std::byte{0});
  std::byte* gap_end = gaps_.data();
  std::byte* length_end = lengths_.data();
  int64_t next = 0;  // the word behind the last changed one
  int64_t changed = 0;
  constexpr size_t kAhead = 16;  // entries: 2 KiB of each version
  for (size_t e = 0; e < entries.size(); ++e) {
    if (e + kAhead < entries.size()) {
      Prefetch(base, target, entries[e + kAhead], static_cast<int64_t>(e + kAhead));
    }
    for (uint64_t bits = entries[e]; bits != 0; bits &= bits - 1) {
      const int64_t word = static_cast<int64_t>(e) * kEntryWords + std::countr_zero(bits);
      const auto moved = static_cast<int16_t>(RankOf(LoadWord(target, word)) - RankOf(LoadWord(base, word)));
      if (moved == 0) continue;  // marked, and equal all the same
      auto gap = static_cast<uint64_t>(word - next);
      next = word + 1;
      for (; gap >= kEscape; gap -= kEscape) *gap_end++ = std::byte{kEscape};
      *gap_end++ = static_cast<std::byte>(gap);
      signs_[static_cast<size_t>(changed) / 8] |= static_cast<std::byte>((moved < 0) << (changed % 8));
      const auto length = static_cast<uint64_t>(std::abs(int{moved}) - 1);
      if (length < kEscape) {
        *length_end++ = static_cast<std::byte>(length);
      } else {
        *length_end++ = std::byte{kEscape};
        *length_end++ = static_cast<std::byte>(length);
        *length_end++ = static_cast<std::byte>(length >> 8);
      }
      ++changed;
    }
  }
  gap_bytes_ = static_cast<size_t>(gap_end - gaps_.data());
  length_bytes_ = static_cast<size_t>(length_end - lengths_.data());
  return changed;
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

// --- decoding ---

absl::StatusOr<std::string_view> UlpDecoder::TakeStream(std::string_view& slice, size_t limit,
                                                        std::vector<std::byte>& unpacked) {
  INGOT_ASSIGN_OR_RETURN(const uint64_t bytes, TakeVarint(slice));
  INGOT_ASSIGN_OR_RETURN(const uint64_t stored, TakeVarint(slice));
  if (bytes > limit || (stored == 0 ? bytes : stored) > slice.size()) return Broken("a stream has another length");
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
  if (slice.size() < sign_bytes) return Broken("it is cut short");
  const std::string_view signs = slice.substr(0, sign_bytes);
  slice.remove_prefix(sign_bytes);
  INGOT_ASSIGN_OR_RETURN(const std::string_view lengths, TakeStream(slice, 3 * count, lengths_));
  if (!slice.empty()) return Broken("it has another length");

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
  if (gap_at != gaps.size() || length_at != lengths.size()) return Broken("it has more than its changes");
  return absl::OkStatus();
}

}  // namespace ingot::weights
