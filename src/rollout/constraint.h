// A request's grammar on its way through sampling: which ids may be drawn, and where the text stands.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "grammar/grammar.h"
#include "proto/tree.pb.h"
#include "rollout/logit_shaping.h"
#include "text/tokenizer.h"

namespace ingot::rollout {

// Every token's bytes, for masks; ids from the tokenizer's end up to `vocab_size` (padding of the model's head) have
// none. Takes a tenth of a second for 150,000 tokens.
std::shared_ptr<const grammar::Vocabulary> VocabularyOf(const text::Tokenizer& tokenizer, int64_t vocab_size);

// INVALID_ARGUMENT: a part says neither literal nor json_schema.
absl::StatusOr<grammar::Spec> SpecOf(const v1::Grammar& grammar);

// Single-threaded; belongs to one request.
class Constraint {
 public:
  // `end_ids` end the turn: allowed when the text is complete, and then alone if it cannot go on.
  Constraint(std::shared_ptr<const grammar::Program> program, std::vector<int32_t> end_ids);

  // What is left of `row` (log-probs up to a constant), normalised. FAILED_PRECONDITION: no token is left.
  // INVALID_ARGUMENT: the grammar is too ambiguous (grammar/matcher.h). The result points into `row`, `scratch` and
  // this object; `row` may be scratch.row.
  absl::StatusOr<ShapedRow> Restrict(std::span<const float> row, ShapingScratch& scratch);

  // Goes on by a drawn id. INTERNAL if it was not allowed.
  absl::Status Accept(int32_t id);

  // Whether an id was ever excluded.
  bool acted() const { return acted_; }

 private:
  grammar::Matcher matcher_;
  const std::vector<int32_t> end_ids_;  // ascending, distinct
  std::vector<int32_t> ids_;            // allowed ones, where they are few
  std::vector<float> ends_;
  bool acted_ = false;
};

}  // namespace ingot::rollout
