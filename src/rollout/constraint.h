// Constraint applies a request's grammar during sampling: it tracks the position in the text and which ids may be
// drawn.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "grammar/grammar.h"
#include "proto/tree.pb.h"
#include "rollout/logit_shaping.h"
#include "rollout/sampling.h"
#include "text/tokenizer/tokenizer.h"

namespace ingot::rollout {

// The bytes of every token, for masks. Ids from the tokenizer's end up to `vocab_size` (padding of the model's head)
// have no bytes. Takes a tenth of a second for 150,000 tokens.
std::shared_ptr<const grammar::Vocabulary> VocabularyOf(const text::Tokenizer& tokenizer, int64_t vocab_size);

// INVALID_ARGUMENT: a part is empty, repeats nothing, or repeats too many levels deep.
absl::StatusOr<grammar::Spec> SpecOf(const v1::Grammar& grammar);

// Single-threaded; belongs to one request.
class Constraint {
 public:
  // `end_ids` end the turn. They are allowed when the text is complete; if it cannot continue, only they are allowed.
  Constraint(std::shared_ptr<const grammar::Program> program, std::vector<int32_t> end_ids);

  // The allowed part of `row`. FAILED_PRECONDITION: the vocabulary has no allowed token. INVALID_ARGUMENT: the grammar
  // is too ambiguous (grammar/matcher.h). The result points into `scratch` and this object; `row` may be scratch.row.
  absl::StatusOr<ShapedRow> Restrict(std::span<const float> row, ShapingScratch& scratch);

  // Advances by a drawn id. INTERNAL: the id was not allowed.
  absl::Status Accept(int32_t id);

  // Whether the grammar has excluded an id so far.
  bool acted() const { return acted_; }

 private:
  grammar::Matcher matcher_;
  const std::vector<int32_t> end_ids_;  // ascending, distinct
  std::vector<int32_t> ids_;            // scratch: the allowed ids, where they are few
  std::vector<float> ends_;
  bool acted_ = false;
};

}  // namespace ingot::rollout
