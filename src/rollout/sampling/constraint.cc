#include "rollout/sampling/constraint.h"

#include <algorithm>
#include <array>
#include <bit>
#include <iterator>
#include <limits>
#include <string>
#include <utility>

namespace ingot::rollout {

namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

// Masks out the ids that are not in `allowed` (one bit per id).
void MaskRow(std::span<const uint64_t> allowed, std::span<float> row) {
  for (size_t word = 0; word < allowed.size(); ++word) {
    const std::span<float> entries = row.subspan(word * 64, std::min<size_t>(64, row.size() - word * 64));
    if (allowed[word] == 0) {
      std::fill(entries.begin(), entries.end(), kNever);
      continue;
    }
    for (uint64_t out = ~allowed[word]; out != 0; out &= out - 1) {
      const auto bit = static_cast<size_t>(std::countr_zero(out));
      if (bit >= entries.size()) break;
      entries[bit] = kNever;
    }
  }
}

using Alternatives = std::vector<std::vector<grammar::Part>>;

absl::StatusOr<Alternatives> AlternativesOf(const google::protobuf::RepeatedPtrField<v1::GrammarSequence>& sequences,
                                            int depth);

grammar::Part PartOf(const v1::GrammarParameters& parameters) {
  return {.is_schema = true,
          .text = parameters.json_schema(),
          .parameters = grammar::ParameterSyntax{.begin = parameters.begin(),
                                                 .text_key_end = parameters.text_key_end(),
                                                 .json_key_end = parameters.json_key_end(),
                                                 .value_end = parameters.value_end(),
                                                 .stop = parameters.stop()}};
}

absl::StatusOr<grammar::Part> PartOf(const v1::GrammarPart& part, int depth) {
  constexpr int kMaxDepth = 8;
  switch (part.part_case()) {
    case v1::GrammarPart::kLiteral:
      return grammar::Part{.is_schema = false, .text = part.literal()};
    case v1::GrammarPart::kJsonSchema:
      return grammar::Part{.is_schema = true, .text = part.json_schema()};
    case v1::GrammarPart::kRegex:
      return grammar::Part{.is_schema = false, .text = part.regex(), .is_regex = true};
    case v1::GrammarPart::kParameters:
      return PartOf(part.parameters());
    case v1::GrammarPart::kPythonKeywords:
      return grammar::Part{.is_schema = true, .text = part.python_keywords(), .keywords = true};
    case v1::GrammarPart::kRepeat: {
      if (depth >= kMaxDepth) {
        return absl::InvalidArgumentError(absl::StrCat("grammar parts repeat more than ", kMaxDepth, " levels deep"));
      }
      if (part.repeat().alternatives().empty()) {
        return absl::InvalidArgumentError("grammar.repeat.alternatives is empty; it needs at least one");
      }
      grammar::Part repeated{.is_schema = false, .text = part.repeat().between()};
      INGOT_ASSIGN_OR_RETURN(repeated.repeated, AlternativesOf(part.repeat().alternatives(), depth + 1));
      return repeated;
    }
    default:
      return absl::InvalidArgumentError(
          "a grammar part must have literal, json_schema, regex, parameters, repeat, or python_keywords set");
  }
}

absl::StatusOr<Alternatives> AlternativesOf(const google::protobuf::RepeatedPtrField<v1::GrammarSequence>& sequences,
                                            int depth) {
  Alternatives alternatives;
  for (const v1::GrammarSequence& sequence : sequences) {
    std::vector<grammar::Part>& parts = alternatives.emplace_back();
    for (const v1::GrammarPart& part : sequence.parts()) {
      INGOT_ASSIGN_OR_RETURN(grammar::Part made, PartOf(part, depth));
      parts.push_back(std::move(made));
    }
  }
  return alternatives;
}

}  // namespace

std::shared_ptr<const grammar::Vocabulary> VocabularyOf(const text::Tokenizer& tokenizer, int64_t vocab_size) {
  std::vector<std::string> bytes(vocab_size);
  std::vector<bool> atomic(vocab_size, false);
  // Decodes each token after another one because some tokenizers drop the first token's leading space.
  const std::vector<int32_t> anchor_ids = tokenizer.Encode("a", /*allow_special=*/false);
  const int32_t anchor = anchor_ids.empty() ? -1 : anchor_ids.back();
  const std::string before = anchor < 0 ? "" : tokenizer.Decode(std::array{anchor}, /*skip_special=*/false);
  const auto size = static_cast<int32_t>(std::min<int64_t>(vocab_size, tokenizer.vocab_size()));
  for (int32_t id = 0; id < size; ++id) {
    const std::array<int32_t, 2> pair = {anchor, id};
    std::string both = tokenizer.Decode(std::span(pair).subspan(anchor < 0 ? 1 : 0), false);
    if (both.compare(0, before.size(), before) == 0) {
      bytes[id] = both.substr(before.size());
    } else {
      bytes[id] = tokenizer.Decode(std::span(pair).last(1), false);
    }
    // Added tokens that contain only whitespace are ordinary text.
    const bool blank = bytes[id].find_first_not_of(" \t\r\n") == std::string::npos;
    atomic[id] = tokenizer.IsSpecial(id) || (!blank && tokenizer.SpecialId(bytes[id]) == id);
  }
  return std::make_shared<const grammar::Vocabulary>(std::move(bytes), std::move(atomic));
}

absl::StatusOr<grammar::Spec> SpecOf(const v1::Grammar& grammar) {
  grammar::Spec spec;
  spec.begins_after = grammar.begins_after();
  INGOT_ASSIGN_OR_RETURN(spec.alternatives, AlternativesOf(grammar.alternatives(), 0));
  return spec;
}

Constraint::Constraint(std::shared_ptr<const grammar::Program> program, std::vector<int32_t> end_ids)
    : matcher_(std::move(program)), end_ids_([&] {
        std::sort(end_ids.begin(), end_ids.end());
        end_ids.erase(std::unique(end_ids.begin(), end_ids.end()), end_ids.end());
        return std::move(end_ids);
      }()) {}

absl::StatusOr<ShapedRow> Constraint::Restrict(std::span<const float> row, ShapingScratch& scratch) {
  INGOT_ASSIGN_OR_RETURN(const std::shared_ptr<const grammar::TokenSet> allowed, matcher_.Allowed());
  const bool complete = matcher_.complete();
  acted_ = acted_ || allowed->count() < row.size() || !complete;
  if (allowed->is_list()) {
    ids_.clear();
    const std::span<const int32_t> list = allowed->list();
    if (complete) {
      std::set_union(list.begin(), list.end(), end_ids_.begin(), end_ids_.end(), std::back_inserter(ids_));
    } else {
      std::set_difference(list.begin(), list.end(), end_ids_.begin(), end_ids_.end(), std::back_inserter(ids_));
    }
    if (ids_.empty()) {
      return absl::FailedPreconditionError(
          "the grammar allows no token: this model's vocabulary cannot spell what must come next");
    }
    scratch.compact.clear();
    for (const int32_t id : ids_) scratch.compact.push_back(row[id]);
    return ShapedRow{scratch.compact, ids_};
  }
  if (row.data() != scratch.row.data()) scratch.row.assign(row.begin(), row.end());
  ends_.clear();
  for (const int32_t id : end_ids_) ends_.push_back(scratch.row[id]);
  MaskRow(allowed->bits(), scratch.row);
  for (size_t i = 0; i < end_ids_.size(); ++i) scratch.row[end_ids_[i]] = complete ? ends_[i] : kNever;
  return ShapedRow{scratch.row, {}};
}

absl::Status Constraint::Accept(int32_t id) {
  if (std::binary_search(end_ids_.begin(), end_ids_.end(), id)) return absl::OkStatus();  // the request ends
  if (matcher_.Accept(id)) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("token ", id, " was sampled although the grammar excludes it"));
}

}  // namespace ingot::rollout
