// MarkedEncoder: rendered text to ids. Only text that the template itself wrote can become a control token.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "text/chat/encode_cache.h"
#include "text/jinja/str.h"
#include "text/tokenizer/added_tokens.h"
#include "text/tokenizer/tokenizer.h"

namespace ingot::text {

// Control tokens are the tokenizer's special tokens, and added tokens whose text is part of the template (Qwen's
// <tool_call>). If outside text spells a control token, wholly or in part, it is ordinary text: the stretch between the
// tokens around it is encoded without added tokens, as Tokenizer::Encode does. A text without such a place is encoded
// as a whole, exactly like Hugging Face. Thread safe. Caches the ids of recurring texts in at most kCacheBytes.
class MarkedEncoder {
 public:
  MarkedEncoder(std::shared_ptr<const Tokenizer> tokenizer, std::string_view template_source);

  // A token that the template wrote, at bytes [begin, end) of the text.
  struct TemplateToken {
    size_t begin;
    size_t end;
    int32_t id;
  };
  // All such tokens in order. REQUIRES: `text` is valid UTF-8; `marks` ascend and lie within it.
  std::vector<TemplateToken> Tokens(std::string_view text, std::span<const jinja::Mark> marks) const;

  struct Encoding {
    std::vector<int32_t> ids;
    std::vector<size_t> at_cuts;  // at_cuts[i]: the number of ids before cuts[i]
  };
  // Encodes `text`; no id spans a cut. `encoded_prefix`: the result for a prefix of the text that ends at its last cut;
  // its cuts are the first of `cuts`, and only the rest is encoded. REQUIRES: cuts ascend and lie between characters.
  Encoding Encode(std::string_view text, std::span<const jinja::Mark> marks, std::span<const size_t> cuts,
                  Encoding encoded_prefix = {}) const;

  const Tokenizer& tokenizer() const { return *tokenizer_; }
  const std::shared_ptr<const Tokenizer>& shared_tokenizer() const { return tokenizer_; }

 private:
  void EncodePiece(std::string_view text, std::span<const jinja::Mark> marks, bool mid_text,
                   std::vector<int32_t>& ids) const;
  // `allow_special`: `text` has no forged tokens. `mid_text`: ordinary text comes before it.
  void Append(std::string_view text, bool allow_special, bool mid_text, std::vector<int32_t>& ids) const;

  static constexpr size_t kCacheBytes = 32 << 20;

  const std::shared_ptr<const Tokenizer> tokenizer_;
  mutable EncodeCache cache_{kCacheBytes};
  std::vector<AddedTokenSpec> added_;
  std::unique_ptr<const AddedTokenMatcher> all_;
  std::unique_ptr<const AddedTokenMatcher> harmless_;  // added tokens that are not control tokens
  std::vector<int32_t> newline_;                       // the ids of "\n"
  bool start_matters_ = false;  // the tokenizer encodes a text's start differently from its middle (Llama 2's space)
};

}  // namespace ingot::text
