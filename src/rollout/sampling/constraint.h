// Applies a request's grammar during sampling. Tracks the position in the output and the ids that may be sampled.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "grammar/grammar.h"
#include "proto/tree.pb.h"
#include "rollout/sampling/logit_shaping.h"
#include "rollout/sampling/sampling.h"
#include "text/tokenizer/tokenizer.h"

namespace ingot::rollout {

// Returns every token's bytes, for building masks. Ids from the tokenizer's size up to `vocab_size` (padding in the
// model's head) have no bytes. Takes about 0.1 s for 150,000 tokens.
std::shared_ptr<const grammar::Vocabulary> VocabularyOf(const text::Tokenizer& tokenizer, int64_t vocab_size);

// Returns INVALID_ARGUMENT if a part is empty, repeats nothing, or nests repetitions too deeply.
absl::StatusOr<grammar::Spec> SpecOf(const v1::Grammar& grammar);

// Not thread safe. Belongs to one request.
class Constraint {
 public:
  // `end_ids` end the turn. They are allowed once the output is complete. If it cannot continue, only they are
  // allowed.
  Constraint(std::shared_ptr<const grammar::Program> program, std::vector<int32_t> end_ids);

  // Returns the allowed part of `row`. Returns FAILED_PRECONDITION if the vocabulary has no allowed token, and
  // INVALID_ARGUMENT if the grammar is too ambiguous (grammar/matcher.h). The result refers to `scratch` and this
  // object. `row` may be scratch.row.
  absl::StatusOr<ShapedRow> Restrict(std::span<const float> row, ShapingScratch& scratch);

  // Advances by a sampled id. Returns INTERNAL if the id was not allowed.
  absl::Status Accept(int32_t id);

  // Returns true if the grammar has excluded any id so far.
  bool acted() const { return acted_; }
  // Call if another engine began the call, because it is then unknown whether an id was excluded.
  void AssumeActed() { acted_ = true; }

 private:
  grammar::Matcher matcher_;
  const std::vector<int32_t> end_ids_;  // ascending and distinct
  std::vector<int32_t> ids_;            // scratch memory: the allowed ids if there are few
  std::vector<float> ends_;
  bool acted_ = false;
};

}  // namespace ingot::rollout
