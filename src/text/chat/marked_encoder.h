// Encodes rendered text so that only text from the template itself can become a control token.
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

// Control tokens are the tokenizer's special tokens, and added tokens that appear in the template (such as Qwen's
// <tool_call>). Untrusted text that spells all or part of a control token is encoded as ordinary text: the text between
// the surrounding tokens is encoded without added tokens, as Tokenizer::Encode does. Text without fake control tokens
// is encoded as a whole, exactly as in Hugging Face. Caches the ids of recurring strings in at most kCacheBytes. Thread
// safe.
class MarkedEncoder {
 public:
  MarkedEncoder(std::shared_ptr<const Tokenizer> tokenizer, std::string_view template_source);

  // A token written by the template, at bytes [begin, end) of the text.
  struct TemplateToken {
    size_t begin;
    size_t end;
    int32_t id;
  };
  // Returns the template's tokens in order. REQUIRES: `text` is valid UTF-8, and `marks` are ascending and in `text`.
  std::vector<TemplateToken> Tokens(std::string_view text, std::span<const jinja::Mark> marks) const;

  struct Encoding {
    std::vector<int32_t> ids;
    std::vector<size_t> at_cuts;  // at_cuts[i] = number of ids before cuts[i]
  };
  // Encodes `text`. No id spans a cut. `encoded_prefix` is the result for a prefix of the text that ends at its last
  // cut. Its cuts are the first entries in `cuts`. Only the remaining text is encoded. REQUIRES: cuts are ascending and
  // between characters.
  Encoding Encode(std::string_view text, std::span<const jinja::Mark> marks, std::span<const size_t> cuts,
                  Encoding encoded_prefix = {}) const;

  const Tokenizer& tokenizer() const { return *tokenizer_; }
  const std::shared_ptr<const Tokenizer>& shared_tokenizer() const { return tokenizer_; }

 private:
  void EncodePiece(std::string_view text, std::span<const jinja::Mark> marks, bool mid_text,
                   std::vector<int32_t>& ids) const;
  // `allow_special`: true = `text` contains no fake tokens. `mid_text`: true = it is preceded by ordinary text.
  void Append(std::string_view text, bool allow_special, bool mid_text, std::vector<int32_t>& ids) const;

  static constexpr size_t kCacheBytes = 32 << 20;

  const std::shared_ptr<const Tokenizer> tokenizer_;
  mutable EncodeCache cache_{kCacheBytes};
  std::vector<AddedTokenSpec> added_;
  std::unique_ptr<const AddedTokenMatcher> all_;
  std::unique_ptr<const AddedTokenMatcher> harmless_;  // added tokens that are not control tokens
  std::vector<int32_t> newline_;                       // ids of "\n"
  // true = the tokenizer encodes text differently at the start of its input (Llama 2's adds a space)
  bool start_matters_ = false;
};

}  // namespace ingot::text
