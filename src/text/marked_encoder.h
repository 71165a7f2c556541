// Rendered text to ids, so that only what the template itself wrote becomes one of its tokens.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "text/added_tokens.h"
#include "text/encode_cache.h"
#include "text/jinja/str.h"
#include "text/tokenizer.h"

namespace ingot::text {

// Control tokens are the special tokens of the tokenizer, and its other added tokens whose text stands in the template
// (Qwen's <tool_call>). A control token that is spelled, wholly or in part, by text from outside is ordinary text: what
// stands between the tokens around it is encoded without any, as Tokenizer::Encode does. A text without such a place is
// encoded as a whole, exactly as Hugging Face encodes it. Thread safe; ids of texts that come again are kept, in at
// most kCacheBytes.
class MarkedEncoder {
 public:
  MarkedEncoder(std::shared_ptr<const Tokenizer> tokenizer, std::string_view template_source);

  // A token that the template wrote: bytes [begin, end) of the text.
  struct Written {
    size_t begin;
    size_t end;
    int32_t id;
  };
  // In order. REQUIRES: valid UTF-8; marks ascending and within the text.
  std::vector<Written> Tokens(std::string_view text, std::span<const jinja::Mark> marks) const;

  struct Encoded {
    std::vector<int32_t> ids;
    std::vector<size_t> at_cuts;  // ids before each cut
  };
  // No id spans a cut. `begun`: what Encode gave for the text up to the last of its cuts, which are the first ones of
  // `cuts`; only what stands behind is encoded. REQUIRES: cuts ascend, and are at borders of characters.
  Encoded Encode(std::string_view text, std::span<const jinja::Mark> marks, std::span<const size_t> cuts,
                 Encoded begun = {}) const;

  const Tokenizer& tokenizer() const { return *tokenizer_; }
  const std::shared_ptr<const Tokenizer>& shared_tokenizer() const { return tokenizer_; }

 private:
  void EncodePiece(std::string_view text, std::span<const jinja::Mark> marks, bool mid_text,
                   std::vector<int32_t>& ids) const;
  // `allow_special`: nothing in `text` is forged. `mid_text`: ordinary text stands before it.
  void Append(std::string_view text, bool allow_special, bool mid_text, std::vector<int32_t>& ids) const;

  static constexpr size_t kCacheBytes = 32 << 20;

  const std::shared_ptr<const Tokenizer> tokenizer_;
  mutable EncodeCache cache_{kCacheBytes};
  std::vector<AddedTokenSpec> added_;
  std::unique_ptr<const AddedTokenMatcher> all_;
  std::unique_ptr<const AddedTokenMatcher> harmless_;  // those that are no control tokens
  std::vector<int32_t> newline_;
  bool start_matters_ = false;  // a text's start is encoded differently from its middle (Llama 2's space)
};

}  // namespace ingot::text
