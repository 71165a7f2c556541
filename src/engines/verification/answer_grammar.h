// Checks answers against their request's grammar with Ingot's own automata. A server that ignores a constraint, or
// applies it to another tokenizer's ids, reports no error.
//
// A server may put more whitespace into JSON than Ingot's engine samples (grammar/grammar.h). If a grammar has a schema,
// whitespace outside JSON strings does not count. A grammar that also has a regular expression, where whitespace counts,
// is not checked, and neither is one with a string format, because the projects' definitions of formats differ.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "grammar/grammar.h"
#include "proto/rollout.pb.h"
#include "text/tokenizer/tokenizer.h"

namespace ingot::engines {

// The grammar of one request. Immutable and thread safe.
class AnswerGrammar {
 public:
  // `compact` is the grammar without whitespace outside JSON strings; null = whitespace counts.
  AnswerGrammar(std::shared_ptr<const grammar::Program> program, std::shared_ptr<const grammar::Program> compact,
                std::string begins_after)
      : program_(std::move(program)), compact_(std::move(compact)), begins_after_(std::move(begins_after)) {}

  // Returns whether `text` follows the grammar, or begins a text that does if it is not `whole`.
  bool Allows(std::string_view text, bool whole) const;

 private:
  const std::shared_ptr<const grammar::Program> program_, compact_;
  const std::string begins_after_;
};

// Compiles requests' grammars, and caches the results. Thread safe.
class AnswerGrammars {
 public:
  // `tokenizer` decodes answers; null = no answer is checked.
  explicit AnswerGrammars(std::shared_ptr<const text::Tokenizer> tokenizer);

  // Returns null if the request has no grammar, or one that cannot be checked. Compiling may take a second.
  std::shared_ptr<const AnswerGrammar> Of(const v1::SamplingParams& sampling);

  // Returns DATA_LOSS if the answer to the request does not follow the grammar. `stopped`: the server ended it, so it
  // must be whole. `end_ids` end a turn.
  absl::Status Check(const AnswerGrammar& grammar, const v1::GenerateRequest& request, std::span<const int32_t> ids,
                     bool stopped, std::span<const int32_t> end_ids) const;

 private:
  std::string TextOf(int32_t before, std::span<const int32_t> ids) const;

  const std::shared_ptr<const text::Tokenizer> tokenizer_;
  grammar::Compiler compiler_;
};

// Returns `text` without whitespace outside JSON strings; nullopt if a string does not end. `part` = true allows that.
std::optional<std::string> WithoutJsonSpace(std::string_view text, bool part = false);

}  // namespace ingot::engines
