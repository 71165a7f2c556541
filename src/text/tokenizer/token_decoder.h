// TokenDecoder: token ids to bytes. The decoder of tokenizer.json is applied to every token at load time. Only the
// steps that depend on a token's place remain at run time: the first token's space, and runs of byte tokens.
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

// Immutable, thread safe.
class TokenDecoder {
 public:
  struct Token {
    std::string text;      // as in the vocabulary or the added token
    bool exists = false;   // false: no token has this id
    bool special = false;  // dropped by skip_special
  };
  // `tokens` is indexed by id. UNIMPLEMENTED names an unsupported component; INVALID_ARGUMENT names the fault.
  static absl::StatusOr<TokenDecoder> Read(const base::json::value* json, std::vector<Token> tokens);

  void Next(int32_t id, bool skip_special, DecodeState& state, std::string& out) const;
  std::string Decode(std::span<const int32_t> ids, bool skip_special) const;
  std::string DecodeText(std::span<const int32_t> ids, bool skip_special) const;

 private:
  struct Bytes {
    uint32_t begin = 0;  // place in arena_ of its bytes within a text
    uint32_t size = 0;
    uint32_t first_size = 0;  // then, if they differ, its bytes as the first token of a text
    bool exists = false;
    bool special = false;
    bool byte = false;  // a token of byte fallback, such as <0xE2>
    bool first_differs = false;
  };
  struct Plan;
  // The token; nullptr if it does not exist or is skipped.
  const Bytes* Find(int32_t id, bool skip_special) const;
  void Append(std::string_view text, DecodeState& state, std::string& out) const;

  std::vector<Bytes> tokens_;
  std::string arena_;
  std::string separator_;  // between tokens: a space if the file has no decoder
  bool byte_fallback_ = false;
  // The Strip of the whole text: drops up to this many of a character at its start and end.
  char strip_start_char_ = ' ';
  int32_t strip_start_ = 0;
  char strip_stop_char_ = ' ';
  int32_t strip_stop_ = 0;
};

}  // namespace ingot::text
