// Implements a tokenizer without merges, where every byte is a token. Added tokens are matched first: leftmost, then
// longest.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/tokenizer/id_bound.h"
#include "text/tokenizer/tokenizer.h"

namespace ingot::text {

struct AddedToken {
  std::string text;
  int32_t id = 0;
  bool special = true;  // false = Decode keeps the token even with skip_special
};

// The largest allowed id. Protects against files that would produce huge tables.
inline constexpr int32_t kMaxTokenId = 1 << 24;

// Immutable and thread safe.
class AlphabetTokenizer final : public Tokenizer {
 public:
  // REQUIRES: ids are distinct and in [0, kMaxTokenId], and added tokens' strings are distinct and not empty.
  AlphabetTokenizer(const std::array<int32_t, 256>& byte_ids, std::vector<AddedToken> added);

  std::vector<int32_t> Encode(std::string_view text, bool allow_special) const override;
  size_t LeastIds(std::string_view text) const override { return bound_.LeastIds(text); }
  std::string Decode(std::span<const int32_t> ids, bool skip_special) const override;
  std::optional<int32_t> SpecialId(std::string_view text) const override;
  bool IsSpecial(int32_t id) const override;
  int32_t vocab_size() const override { return vocab_size_; }
  const std::string& fingerprint() const override { return fingerprint_; }

 private:
  // Returns the longest added token at `text[at]`, or nullptr.
  const AddedToken* MatchAt(std::string_view text, size_t at) const;

  std::array<int32_t, 256> byte_ids_;
  std::vector<AddedToken> added_;                        // longest first, so the first match is the longest
  std::array<std::vector<int32_t>, 256> by_first_byte_;  // indices into added_, longest first
  std::unordered_map<int32_t, int32_t> added_by_id_;     // index in added_, by id
  std::vector<int16_t> byte_by_id_;                      // byte by id; -1 = not a byte
  int32_t vocab_size_ = 0;
  std::string fingerprint_;
  IdBound bound_;
};

// Returns GPT-2's printable character (UTF-8) for each byte, as used by byte-level vocabularies.
const std::array<std::string, 256>& ByteSpelling();

}  // namespace ingot::text
