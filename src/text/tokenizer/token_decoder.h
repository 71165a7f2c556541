// Converts token ids to bytes. The decoder in tokenizer.json is applied to every token at load time. Only the steps
// that depend on a token's position run later: the first token's space, and runs of byte tokens.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "text/tokenizer/tokenizer.h"

namespace ingot::text {

// Immutable and thread safe.
class TokenDecoder {
 public:
  struct Token {
    std::string text;      // as in the vocabulary or the added token
    bool exists = false;   // false = no token has this id
    bool special = false;  // skip_special drops it
  };
  // `tokens` is indexed by id. Returns UNIMPLEMENTED, naming an unsupported component, or INVALID_ARGUMENT, with the
  // problem.
  static absl::StatusOr<TokenDecoder> Read(const base::json::value* json, std::vector<Token> tokens);

  void Next(int32_t id, bool skip_special, DecodeState& state, std::string& out) const;
  std::string Decode(std::span<const int32_t> ids, bool skip_special) const;
  std::string DecodeText(std::span<const int32_t> ids, bool skip_special) const;

 private:
  struct Bytes {
    uint32_t begin = 0;  // offset in arena_ of its bytes, unless it is the first token
    uint32_t size = 0;
    uint32_t first_size = 0;  // size of its bytes as the first token; stored next if they differ
    bool exists = false;
    bool special = false;
    bool byte = false;  // a byte fallback token, such as <0xE2>
    bool first_differs = false;
  };
  struct Plan;
  // Returns the token, or nullptr if it does not exist or is skipped.
  const Bytes* Find(int32_t id, bool skip_special) const;
  void Append(std::string_view text, DecodeState& state, std::string& out) const;

  std::vector<Bytes> tokens_;
  std::string arena_;
  std::string separator_;  // string between tokens: a space if the file has no decoder
  bool byte_fallback_ = false;
  // Strip settings for the full text: the number of these characters to drop, at most, at its start and end.
  char strip_start_char_ = ' ';
  int32_t strip_start_ = 0;
  char strip_stop_char_ = ' ';
  int32_t strip_stop_ = 0;
};

}  // namespace ingot::text
