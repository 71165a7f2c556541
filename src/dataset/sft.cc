#include "dataset/sft.h"

#include <algorithm>

namespace ingot::dataset {
namespace {

// The turn that message `i` of a rendered conversation is. `before`: a beginning of its context, which becomes that.
tree::CallPath Example(const text::RenderedPrompt& prompt, size_t i, tree::TokenPath& before) {
  const auto [first, last] = prompt.sampled_ranges[i];
  tree::CallPath call;
  const auto ids = prompt.ids.begin();
  call.context = before = before.Then({ids + before.size(), ids + static_cast<std::ptrdiff_t>(first)});
  call.sampled.assign(ids + static_cast<std::ptrdiff_t>(first), ids + static_cast<std::ptrdiff_t>(last));
  call.logprobs.assign(last - first, 0.0f);
  call.versions.assign(last - first, 0);
  call.kv_mixed.assign(last - first, 0);
  return call;
}

}  // namespace

absl::Status AppendSftExamples(const text::Conversation& conversation, const text::ChatFormat& format,
                               const SftOptions& options, size_t first_message, int32_t index,
                               std::vector<tree::CallPath>& examples) {
  const std::vector<text::Message>& messages = conversation.messages;
  const auto is_assistant = [](const text::Message& message) { return message.role == "assistant"; };
  if (first_message >= messages.size() ||
      std::none_of(messages.begin() + static_cast<std::ptrdiff_t>(first_message), messages.end(), is_assistant)) {
    return absl::InvalidArgumentError("it has no assistant message to learn from");
  }
  // A later user message drops earlier reasoning: then each turn is rendered as it stood when it was written.
  const bool by_turn =
      std::any_of(messages.begin(), messages.end(), [](const text::Message& m) { return !m.reasoning.empty(); });
  INGOT_ASSIGN_OR_RETURN(text::RenderedPrompt prompt, format.Render(conversation, false));
  tree::TokenPath before;
  for (size_t i = first_message; i < messages.size(); ++i) {
    if (!is_assistant(messages[i])) continue;
    if (by_turn) {
      text::Conversation then;
      then.tools = conversation.tools;
      then.messages.assign(messages.begin(), messages.begin() + static_cast<std::ptrdiff_t>(i) + 1);
      INGOT_ASSIGN_OR_RETURN(prompt, format.Render(then, false));
      before = {};
    }
    const size_t tokens = prompt.sampled_ranges[i].second;
    if (options.max_tokens > 0 && tokens > static_cast<size_t>(options.max_tokens)) {
      return absl::InvalidArgumentError(absl::StrCat("its message ", i, " ends after ", tokens,
                                                     " tokens, more than the ", options.max_tokens,
                                                     " an example may have: shorten the "
                                                     "conversation or raise the limit"));
    }
    tree::CallPath call = Example(prompt, i, before);
    call.call_id = absl::StrCat("conversation ", index, " message ", i);
    call.episode = call.group = index;
    examples.push_back(std::move(call));
  }
  return absl::OkStatus();
}

absl::Status SftOptions::Validate() const {
  if (max_tokens < 0) return absl::InvalidArgumentError("max_tokens must not be negative");
  return absl::OkStatus();
}

absl::StatusOr<std::vector<tree::CallPath>> MakeSftExamples(std::span<const text::Conversation> conversations,
                                                            const text::ChatFormat& format, const SftOptions& options) {
  INGOT_RETURN_IF_ERROR(options.Validate());
  std::vector<tree::CallPath> examples;
  for (size_t i = 0; i < conversations.size(); ++i) {
    INGOT_RETURN_IF_ERROR(
        base::Annotate(AppendSftExamples(conversations[i], format, options, 0, static_cast<int32_t>(i), examples),
                       absl::StrCat("conversation ", i)));
  }
  return examples;
}

}  // namespace ingot::dataset
