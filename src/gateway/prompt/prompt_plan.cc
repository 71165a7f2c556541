#include "gateway/prompt/prompt_plan.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "gateway/prompt/canonical.h"
#include "gateway/prompt/generation.h"
#include "gateway/prompt/turn_text.h"
#include "text/output/output_format.h"

namespace ingot::gateway {
namespace {

constexpr size_t kGenerationPromptIds = 32;  // number of ids at the end of a prompt to search for its prefill

text::Conversation WithoutReasoning(text::Conversation conversation) {
  for (text::Message& message : conversation.messages) message.reasoning.clear();
  return conversation;
}

}  // namespace

absl::StatusOr<PromptPlan> PromptPlanner::Plan(const text::Conversation& conversation, Continuation continued,
                                               size_t most_ids) const {
  PromptPlan plan;
  plan.continued = std::move(continued);
  const std::optional<text::Conversation> changed = std::exchange(plan.continued.conversation, std::nullopt);
  const text::Conversation& rendered = changed.has_value() ? *changed : conversation;
  if (plan.continued.match.parent >= 0) {
    INGOT_ASSIGN_OR_RETURN(const std::string cause, Continue(rendered, most_ids, plan));
    if (!cause.empty()) {
      History::Match& match = plan.continued.match;
      match = {.parent = -1, .first_new = 0, .fork_cause = cause};
      plan.continued.ids.clear();
      plan.continued.placeholders.clear();
      plan.continued.unrecorded.reset();
      plan.continued.parent_call_id.clear();
    }
  }
  if (plan.continued.match.parent < 0) INGOT_RETURN_IF_ERROR(RenderWhole(rendered, most_ids, plan));
  plan.reasoning = ReasoningOf(rendered, plan.continued.match.first_new);
  if (rendered.ends_begun) plan.begun = rendered.messages.back();
  return plan;
}

absl::Status PromptPlanner::RenderWhole(const text::Conversation& conversation, size_t most_ids,
                                        PromptPlan& plan) const {
  auto rendered = format_->Render(conversation, true, most_ids);
  if (text::LeastIdsOf(rendered.status()).has_value()) return rendered.status();
  if (!rendered.ok()) return absl::InvalidArgumentError(rendered.status().message());
  const bool system = conversation.messages[0].role == "system";
  plan.refs = PromptSegments(rendered->ids, system && !rendered->message_ends.empty() ? rendered->message_ends[0] : 0);
  plan.ids = std::move(rendered->ids);
  plan.prefill = std::move(rendered->prefill);
  plan.text_key = std::move(rendered->text_key);
  plan.concessions = rendered->concessions;
  if (plan.ids.empty()) return absl::InvalidArgumentError("the conversation renders to no tokens");
  const auto reasons = [](const text::Message& message) { return !message.reasoning.empty(); };
  if (keeps_reasoning_ && !plan.text_key.empty() &&
      std::any_of(conversation.messages.begin(), conversation.messages.end(), reasons)) {
    // Continue compares text without reasoning.
    const auto bare = format_->Render(WithoutReasoning(conversation), true);
    plan.text_key = bare.ok() ? bare->text_key : "";
  }
  return absl::OkStatus();
}

// By default, the conversation includes its reasoning even if the client dropped it, and the parent is continued only
// as long as the template renders that reasoning. If keeps_reasoning_ is true, the conversation has no reasoning, and
// sampled turns stay unchanged regardless of how the template treats reasoning.
absl::StatusOr<std::string> PromptPlanner::Continue(const text::Conversation& conversation, size_t most_ids,
                                                    PromptPlan& plan) const {
  Continuation& continued = plan.continued;
  const size_t known = continued.ids.size(), most_of_tail = most_ids - std::min(most_ids, known);
  const size_t first_new = continued.match.first_new;
  const text::TailOptions options{
      .earlier = keeps_reasoning_ ? text::EarlierTurns::kAsSampled : text::EarlierTurns::kAsTemplate,
      .sampled_from = continued.text_key,
      .following = continued.following,
      .most_ids = most_of_tail};
  auto tail = keeps_reasoning_
                  ? format_->RenderTail(WithoutReasoning(conversation), first_new, continued.parent_turn, options)
                  : format_->RenderTail(conversation, first_new, continued.parent_turn, options);
  if (const auto least = text::LeastIdsOf(tail.status())) return text::TooManyIds(known + *least);
  if (!tail.ok()) {
    INGOT_LOG(
        debug,
        "after call {}: the new messages cannot be rendered by themselves ({}), so the whole conversation is rendered",
        continued.parent_call_id, std::string(tail.status().message()));
    if (absl::IsFailedPrecondition(tail.status())) return kForkThinkingStripped;
    return absl::IsAborted(tail.status()) ? kForkTemplateDiffers : kForkTailFailed;
  }
  plan.prefill = std::move(tail->prefill);
  plan.text_key = std::move(tail->text_key);
  plan.concessions = tail->concessions;
  plan.ids = std::move(continued.ids);
  plan.placeholders = std::move(continued.placeholders);
  plan.ids.insert(plan.ids.end(), tail->ids.begin(), tail->ids.end());
  plan.refs = PromptSegments(tail->ids, 0);
  return "";
}

// Returns the prefill in a prompt that was given as ids, as far as its last ids show it.
std::string PromptPlanner::PrefillIn(std::span<const int32_t> prompt) const {
  prompt = prompt.last(std::min(prompt.size(), kGenerationPromptIds));
  for (const int32_t id : format_->end_of_turn_ids()) {
    const auto end = std::find(prompt.rbegin(), prompt.rend(), id);
    prompt = prompt.last(end - prompt.rbegin());
  }
  return std::string(format_->output()->PrefillOf(tokenizer_->Decode(prompt, false)));
}

absl::StatusOr<PromptPlan> PromptPlanner::PlanRaw(std::string_view text, std::span<const int32_t> ids,
                                                  size_t most_ids) const {
  PromptPlan plan;
  plan.raw = true;
  if (ids.empty() && text.size() > most_ids) {
    if (const size_t least = tokenizer_->LeastIds(text); least > most_ids) return text::TooManyIds(least);
  }
  plan.ids = ids.empty() ? tokenizer_->Encode(text, true) : std::vector<int32_t>(ids.begin(), ids.end());
  for (const int32_t id : plan.ids) {
    if (id >= vocab_size_) {
      return absl::InvalidArgumentError(
          absl::StrCat("the token id ", id, " is not in the vocabulary, whose size is ", vocab_size_));
    }
  }
  if (plan.ids.empty()) return absl::InvalidArgumentError("the prompt has no tokens");
  plan.refs = PromptSegments(plan.ids, 0);
  plan.prefill = PrefillIn(plan.ids);
  return plan;
}

History::KeptPrefix PromptPlanner::KeptPrefixOf(const text::Conversation& conversation, size_t message,
                                                const History::SampledText& answer) const {
  const text::Message& sent = conversation.messages[message];
  if (!sent.tool_calls.empty() || TrimmedSize(sent.content) == 0) return {};
  const auto reader = [&] {
    return TurnText(
        {.tokenizer = tokenizer_,
         .ends = format_->end_of_turn_ids(),
         .format = format_->output(),
         .reading = {.tools = conversation.tools,
                     .prefill = answer.prefill,
                     .calls = conversation.tools.empty() ? text::CallMode::kText : text::CallMode::kStreamed}});
  };
  TurnText streamed = reader();
  std::string content = WithLineFeeds(answer.begun == nullptr ? "" : answer.begun->content);
  size_t pushed = 0;
  for (const size_t kept = TrimmedSize(WithLineFeeds(sent.content)); TrimmedSize(content) < kept;) {
    if (pushed == answer.ids.size()) return {};
    streamed.Push(answer.ids.subspan(pushed++, 1));
    for (const TurnText::Delta& delta : streamed.TakeDeltas()) {
      if (delta.kind != PartKind::kContent) continue;
      const bool within = content.ends_with('\r');  // a line ending is split between two pieces
      content.resize(content.size() - within);
      content += WithLineFeeds((within ? "\r" : "") + delta.text);
    }
  }
  // Text for the last ids may be held back until more ids arrive, so fewer ids may be delivered than were pushed.
  History::KeptPrefix kept;
  kept.ids = static_cast<size_t>(streamed.delivered_tokens());
  TurnText whole = reader();
  whole.Push(answer.ids.first(kept.ids));
  whole.Finish("");
  kept.message.role = "assistant";
  kept.message.content = whole.message().content;
  kept.message.reasoning = whole.message().reasoning;
  kept.message.tool_calls = whole.message().tool_calls;
  if (answer.begun != nullptr) kept.message = ContinuedMessage(*answer.begun, std::move(kept.message));
  const bool same = MessageKey(kept.message) == MessageKey(sent) &&
                    SameReasoning(sent.reasoning, ReasoningKey(kept.message.reasoning));
  return same ? kept : History::KeptPrefix();
}

}  // namespace ingot::gateway
