#include "dataset/sft.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "text/chat/template_variables.h"

namespace ingot::dataset {
namespace {

tree::CallPath Example(text::RenderedTurn turn, tree::TokenPath context) {
  tree::CallPath call;
  call.context = std::move(context);
  call.logprobs.assign(turn.sampled.size(), 0.0f);
  call.versions.assign(turn.sampled.size(), 0);
  call.kv_mixed.assign(turn.sampled.size(), 0);
  call.sampled = std::move(turn.sampled);
  return call;
}

absl::Status TooLong(const std::string& name, int64_t tokens, const SftOptions& options) {
  if (options.max_tokens == 0 || tokens <= options.max_tokens) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(name, " ends after ", tokens, " tokens, and the context length is ",
                                                 options.max_tokens,
                                                 ": shorten the conversation, or train a model with a longer context"));
}

absl::Status AppendRecorded(const SftConversation& from, const SftOptions& options, int32_t index,
                            std::vector<tree::CallPath>& examples) {
  int range = 0;
  for (tree::CallPath& call : ExamplesOf(*from.recorded)) {
    call.call_id = absl::StrCat(from.place, ", learnt[", range++, "]");
    call.episode = call.group = index;
    INGOT_RETURN_IF_ERROR(TooLong(call.call_id, call.size(), options));
    examples.push_back(std::move(call));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status AppendSftExamples(const SftConversation& from, const text::ChatFormat& format, const SftOptions& options,
                               size_t first_message, int32_t index, std::vector<tree::CallPath>& examples,
                               text::ConcessionCounts* concessions) {
  if (from.recorded.has_value()) return AppendRecorded(from, options, index, examples);
  std::optional<text::Conversation> completed;  // includes the variables of all conversations
  if (!options.template_variables.empty()) {
    completed = from.conversation;
    text::AddTemplateVariables(options.template_variables, *completed);
  }
  auto turns = format.RenderTurns(completed.has_value() ? *completed : from.conversation, first_message);
  if (!turns.ok()) return base::Annotate(turns.status(), from.place);
  const auto learnt = [&](const text::RenderedTurn& turn) {
    return IsLearnt(from.conversation.messages[turn.message]);
  };
  if (std::none_of(turns->begin(), turns->end(), learnt)) {
    return absl::InvalidArgumentError(absl::StrCat(from.place, ": it has no assistant message to learn from"));
  }
  tree::TokenPath before;  // the previous turn
  for (text::RenderedTurn& turn : *turns) {
    const std::string name = absl::StrCat(from.place, ", message ", turn.message);
    if (concessions != nullptr) text::Count(turn.concessions, *concessions);
    tree::TokenPath context = before.First(static_cast<int64_t>(turn.shared)).Then(std::move(turn.context));
    before = context.Then(turn.sampled);
    if (!learnt(turn)) continue;
    INGOT_RETURN_IF_ERROR(TooLong(name, context.size() + std::ssize(turn.sampled), options));
    tree::CallPath call = Example(std::move(turn), std::move(context));
    call.call_id = name;
    call.episode = call.group = index;
    examples.push_back(std::move(call));
  }
  return absl::OkStatus();
}

absl::Status SftOptions::Validate() const {
  if (max_tokens < 0) return absl::InvalidArgumentError("max_tokens must not be negative");
  return absl::OkStatus();
}

absl::StatusOr<std::vector<tree::CallPath>> MakeSftExamples(std::span<const SftConversation> conversations,
                                                            const text::ChatFormat& format, const SftOptions& options,
                                                            text::ConcessionCounts* concessions) {
  INGOT_RETURN_IF_ERROR(options.Validate());
  std::vector<tree::CallPath> examples;
  for (size_t i = 0; i < conversations.size(); ++i) {
    INGOT_RETURN_IF_ERROR(
        AppendSftExamples(conversations[i], format, options, 0, static_cast<int32_t>(i), examples, concessions));
  }
  return examples;
}

}  // namespace ingot::dataset
