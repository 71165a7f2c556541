#include "app/checks/supervised_examples.h"

#include <string>

#include "dataset/conversations.h"
#include "dataset/preferences.h"
#include "dataset/sft.h"
#include "trainer/batch.h"

namespace ingot::app {
namespace {

// Returns INVALID_ARGUMENT if recorded ids are from another tokenizer.
absl::Status CheckTokenizer(const dataset::SftConversation& from, const TextParts& text) {
  const std::string& ours = text.tokenizer->fingerprint();
  if (!from.recorded.has_value() || from.recorded->tokenizer.empty() || from.recorded->tokenizer == ours) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(from.place, ": its ids are from tokenizer ", from.recorded->tokenizer,
                                                 ", but the run uses tokenizer ", ours,
                                                 ": export from a run with the same tokenizer"));
}

absl::StatusOr<StageExamples> ReadConversations(const std::string& path, const TextParts& text,
                                                const dataset::SftOptions& options) {
  StageExamples examples;
  if (path.empty()) return examples;
  INGOT_ASSIGN_OR_RETURN(const auto conversations, dataset::LoadConversations(path));
  for (const dataset::SftConversation& one : conversations) INGOT_RETURN_IF_ERROR(CheckTokenizer(one, text));
  INGOT_ASSIGN_OR_RETURN(examples.calls,
                         dataset::MakeSftExamples(conversations, *text.format, options, &examples.concessions));
  examples.count = std::ssize(conversations);
  return examples;
}

absl::StatusOr<StageExamples> ReadPairs(const std::string& path, const TextParts& text,
                                        const dataset::SftOptions& options) {
  StageExamples examples;
  if (path.empty()) return examples;
  INGOT_ASSIGN_OR_RETURN(const auto pairs, dataset::LoadPreferences(path));
  for (const dataset::PreferencePair& pair : pairs) {
    INGOT_RETURN_IF_ERROR(CheckTokenizer(pair.chosen, text));
    INGOT_RETURN_IF_ERROR(CheckTokenizer(pair.rejected, text));
  }
  INGOT_ASSIGN_OR_RETURN(examples.calls,
                         dataset::MakePreferenceExamples(pairs, *text.format, options, &examples.concessions));
  examples.count = std::ssize(pairs);
  return examples;
}

absl::Status CheckCalls(const StageExamples& examples, const trainer::TokenLimits& limits) {
  for (const tree::CallPath& call : examples.calls) {
    INGOT_RETURN_IF_ERROR(trainer::CheckCall(call, limits, /*recorded=*/false));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<SupervisedExamples> ReadSupervisedExamples(const RunConfig& config, const TextParts& text,
                                                          const model::ModelConfig& shape) {
  dataset::SftOptions options;
  options.max_tokens = shape.max_position_embeddings;
  options.template_variables = config.gateway.template_variables;
  const trainer::TokenLimits limits(shape.vocab_size, shape.max_position_embeddings);
  SupervisedExamples examples;
  auto sft = ReadConversations(config.sft_data, text, options);
  INGOT_RETURN_IF_ERROR(base::Annotate(sft.status(), "data.sft"));
  examples.sft = *std::move(sft);
  INGOT_RETURN_IF_ERROR(base::Annotate(CheckCalls(examples.sft, limits), "data.sft"));
  auto dpo = ReadPairs(config.dpo_data, text, options);
  INGOT_RETURN_IF_ERROR(base::Annotate(dpo.status(), "data.dpo"));
  examples.dpo = *std::move(dpo);
  INGOT_RETURN_IF_ERROR(base::Annotate(CheckCalls(examples.dpo, limits), "data.dpo"));
  return examples;
}

}  // namespace ingot::app
