#include "dataset/sft.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "dataset/conversations.h"

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

}  // namespace

absl::Status AppendSftExamples(const text::Conversation& conversation, const text::ChatFormat& format,
                               const SftOptions& options, size_t first_message, int32_t index,
                               std::vector<tree::CallPath>& examples) {
  INGOT_ASSIGN_OR_RETURN(std::vector<text::RenderedTurn> turns, format.RenderTurns(conversation, first_message));
  const auto learnt = [&](const text::RenderedTurn& turn) { return IsLearnt(conversation.messages[turn.message]); };
  if (std::none_of(turns.begin(), turns.end(), learnt)) {
    return absl::InvalidArgumentError("it has no assistant message to learn from");
  }
  tree::TokenPath before;  // the turn before
  for (text::RenderedTurn& turn : turns) {
    const size_t message = turn.message;
    tree::TokenPath context = before.First(static_cast<int64_t>(turn.shared)).Then(std::move(turn.context));
    before = context.Then(turn.sampled);
    if (!learnt(turn)) continue;
    const int64_t tokens = context.size() + std::ssize(turn.sampled);
    if (options.max_tokens > 0 && tokens > options.max_tokens) {
      return absl::InvalidArgumentError(absl::StrCat("its message ", message, " ends after ", tokens,
                                                     " tokens, more than the ", options.max_tokens,
                                                     " an example may have: shorten the "
                                                     "conversation or raise the limit"));
    }
    tree::CallPath call = Example(std::move(turn), std::move(context));
    call.call_id = absl::StrCat("conversation ", index, " message ", message);
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
