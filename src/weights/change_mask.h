// Marks the words in a tensor that may differ from an earlier version. The mask has one bit per two-byte word, so it
// takes a sixteenth of the tensor's memory. The optimizer marks words when it writes them, so the delta codec reads
// only the marked words in both versions. Unmarked words are equal. Marked words may also be equal after several
// updates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace ingot::weights {

class ChangeMask {
 public:
  // Number of words per entry. Word w is bit w % 64 of entry w / 64. Bits after the last word are 0.
  static constexpr int64_t kEntryWords = 64;

  ChangeMask() = default;
  explicit ChangeMask(int64_t words)
      : ChangeMask(words, std::vector<uint64_t>(static_cast<size_t>((words + kEntryWords - 1) / kEntryWords))) {}
  // REQUIRES: an entry per kEntryWords words.
  ChangeMask(int64_t words, std::vector<uint64_t> entries) : words_(words), entries_(std::move(entries)) {}

  int64_t words() const { return words_; }
  std::span<uint64_t> entries() { return entries_; }
  std::span<const uint64_t> entries() const { return entries_; }

 private:
  int64_t words_ = 0;
  std::vector<uint64_t> entries_;  // initially no word is marked
};

// Describes which words differ between a version and the previous one. A tensor without a mask must be compared.
struct Changes {
  uint64_t base_checksum = 0;  // Manifest.checksum of the previous version
  std::map<std::string, ChangeMask> masks;
};

// Writes the entries for `words` words, with bits set where a and b differ.
void CompareWords(const std::byte* a, const std::byte* b, int64_t words, uint64_t* entries);

// Rounds to bfloat16 (to nearest, ties to even) and sets the bits for words in `to` that differ from `before`. A NaN
// becomes 0x7fc0. `to` must start at the first word of an entry. If it equals `before`, only changed words are written.
void RoundToBfloat16(const float* from, int64_t words, const uint16_t* before, uint16_t* to, uint64_t* entries);

// Returns the number of marked words that differ.
int64_t CountChangedWords(const std::byte* a, const std::byte* b, std::span<const uint64_t> entries);

}  // namespace ingot::weights
