// Implements the tokenizer defined by a tokenizer.json: added tokens, normalizer, pre-tokenizer, BPE, template, and
// decoder, in that order.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "text/tokenizer/added_tokens.h"
#include "text/tokenizer/bpe.h"
#include "text/tokenizer/id_bound.h"
#include "text/tokenizer/normalizer.h"
#include "text/tokenizer/post_processor.h"
#include "text/tokenizer/pre_tokenizer.h"
#include "text/tokenizer/token_decoder.h"
#include "text/tokenizer/tokenizer.h"

namespace ingot::text {

struct PipelineParts {
  std::vector<AddedTokenSpec> added;  // strings are distinct and not empty
  NormalizerChain normalizer;
  PreTokenizerStages pre_tokenizer;
  std::unique_ptr<const Bpe> model;
  PostProcessor post_processor;
  TokenDecoder decoder;
  int32_t vocab_size = 0;
  std::string fingerprint;
};

// Immutable and thread safe.
class PipelineTokenizer final : public Tokenizer {
 public:
  explicit PipelineTokenizer(PipelineParts parts);

  std::vector<int32_t> Encode(std::string_view text, bool allow_special) const override;
  size_t LeastIds(std::string_view text) const override { return bound_.LeastIds(text); }
  std::vector<int32_t> AddSpecial(std::vector<int32_t> ids) const override;
  std::string Decode(std::span<const int32_t> ids, bool skip_special) const override;
  std::string DecodeText(std::span<const int32_t> ids, bool skip_special) const override;
  void DecodeNext(int32_t id, bool skip_special, DecodeState& state, std::string& out) const override;
  std::optional<int32_t> SpecialId(std::string_view text) const override;
  bool IsSpecial(int32_t id) const override;
  int32_t vocab_size() const override { return parts_.vocab_size; }
  const std::string& fingerprint() const override { return parts_.fingerprint; }

 private:
  // Matchers for added tokens: `raw` for the original text, and `normalized` for the remaining text after
  // normalization.
  struct Matchers {
    AddedTokenMatcher raw;
    AddedTokenMatcher normalized;
  };
  Matchers MakeMatchers(bool only_white_space) const;
  void EncodeRest(std::string_view text, bool starts_text, const Matchers& matchers, std::vector<int32_t>& ids) const;

  IdBound MakeBound() const;

  const PipelineParts parts_;
  std::map<std::string, const AddedTokenSpec*, std::less<>> by_text_;
  std::map<int32_t, const AddedTokenSpec*> by_id_;
  std::array<bool, 256> begins_ = {};  // first bytes of the keys in by_text_, for a quick check of every decoded id
  const Matchers all_;                 // used if special tokens are allowed
  const Matchers white_space_;         // used otherwise; has only whitespace tokens
  const IdBound bound_;
};

}  // namespace ingot::text
