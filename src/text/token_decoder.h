// Tokens to bytes: the decoder of tokenizer.json, worked out per token when it is read. What depends on a token's place
// (the first one's space, runs of byte tokens) is all that remains to be done when decoding.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "text/tokenizer.h"

namespace ingot::text {

// Immutable, thread safe.
class TokenDecoder {
 public:
  struct Token {
    std::string text;  // as the vocabulary or the added token has it; empty: there is no such id
    bool exists = false;
    bool special = false;  // dropped by skip_special
  };
  // `tokens` by id. UNIMPLEMENTED names the component, INVALID_ARGUMENT the fault.
  static absl::StatusOr<TokenDecoder> Read(const base::json::value* json, std::vector<Token> tokens);

  void Next(int32_t id, bool skip_special, DecodeState& state, std::string& out) const;
  std::string Decode(std::span<const int32_t> ids, bool skip_special) const;
  std::string DecodeText(std::span<const int32_t> ids, bool skip_special) const;

 private:
  struct Bytes {
    uint32_t begin = 0;  // in arena_: what the token is in the middle of a text,
    uint32_t size = 0;
    uint32_t first_size = 0;  // then what it is as a text's first token, if that differs
    bool exists = false;
    bool special = false;
    bool byte = false;  // of byte fallback
    bool first_differs = false;
  };
  struct Plan;
  // The token, if it is one that is not skipped.
  const Bytes* Find(int32_t id, bool skip_special) const;
  void Append(std::string_view text, DecodeState& state, std::string& out) const;

  std::vector<Bytes> tokens_;
  std::string arena_;
  std::string separator_;  // between tokens: a space where the file names no decoder
  bool byte_fallback_ = false;
  // Of the whole text: up to so many of a character at its start and end are dropped.
  char strip_start_char_ = ' ';
  int32_t strip_start_ = 0;
  char strip_stop_char_ = ' ';
  int32_t strip_stop_ = 0;
};

}  // namespace ingot::text
