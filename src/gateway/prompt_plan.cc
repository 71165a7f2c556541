#include "gateway/prompt_plan.h"

#include <algorithm>
#include <span>
#include <string>
#include <utility>

#include "base/log.h"
#include "gateway/api_error.h"
#include "gateway/canonical.h"
#include "gateway/generation.h"
#include "gateway/turn_text.h"
#include "text/output_format.h"

namespace ingot::gateway {
namespace {

constexpr size_t kGenerationPromptIds = 32;  // where a template may have begun the answer

text::Conversation WithoutReasoning(text::Conversation conversation) {
  for (text::Message& message : conversation.messages) message.reasoning.clear();
  return conversation;
}

absl::Status RenderWhole(const Core& core, const char* field, const text::Conversation& conversation,
                         PromptPlan& plan) {
  auto rendered = core.parts.format->Render(conversation, true);
  if (!rendered.ok()) return BadRequest(field, std::string(rendered.status().message()));
  const bool system = conversation.messages[0].role == "system";
  plan.pieces = PromptPieces(rendered->ids, system && !rendered->message_ends.empty() ? rendered->message_ends[0] : 0);
  plan.ids = std::move(rendered->ids);
  plan.prefill = std::move(rendered->prefill);
  plan.text_key = std::move(rendered->text_key);
  if (plan.ids.empty()) return BadRequest(field, "the conversation renders to no tokens");
  const auto reasons = [](const text::Message& message) { return !message.reasoning.empty(); };
  if (core.options.history_thinking == HistoryThinking::kKeep && !plan.text_key.empty() &&
      std::any_of(conversation.messages.begin(), conversation.messages.end(), reasons)) {
    // What continues this is compared without reasoning.
    const auto bare = core.parts.format->Render(WithoutReasoning(conversation), true);
    plan.text_key = bare.ok() ? bare->text_key : "";
  }
  return absl::OkStatus();
}

// Goes on from what the parent sampled. Returns why it cannot: a cause of a fork; empty: done.
//
// Under `template` the conversation has its reasoning, also where the client dropped it, and the parent is continued
// only while the template goes on writing it so. Under `keep` it has none: what was sampled stays as it is, and what
// the template thinks of reasoning is not asked.
std::string Continue(const Core& core, const text::Conversation& conversation, text::EarlierTurns earlier,
                     PromptPlan& plan) {
  Episode::Plan& continued = plan.continued;
  auto tail = core.parts.format->RenderTail(conversation, continued.match.first_new, continued.parent_turn,
                                            {.earlier = earlier, .sampled_from = continued.text_key});
  if (!tail.ok()) {
    INGOT_LOG(debug, "after call {}: the tail does not render ({}): rendering everything", continued.parent_call_id,
              std::string(tail.status().message()));
    if (absl::IsFailedPrecondition(tail.status())) return kForkThinkingStripped;
    return absl::IsAborted(tail.status()) ? kForkTemplateDiffers : kForkTailFailed;
  }
  plan.prefill = std::move(tail->prefill);
  plan.text_key = std::move(tail->text_key);
  plan.ids = std::move(continued.ids);
  plan.ids.insert(plan.ids.end(), tail->ids.begin(), tail->ids.end());
  plan.pieces = PromptPieces(tail->ids, 0);
  return "";
}

// What a prompt that came as ids has written of the answer: as well as its last ids tell.
std::string PrefillIn(const Core& core, std::span<const int32_t> prompt) {
  prompt = prompt.last(std::min(prompt.size(), kGenerationPromptIds));
  for (const int32_t id : core.parts.format->end_of_turn_ids()) {
    const auto end = std::find(prompt.rbegin(), prompt.rend(), id);
    prompt = prompt.last(end - prompt.rbegin());
  }
  return std::string(core.parts.format->output()->PrefillOf(core.parts.tokenizer->Decode(prompt, false)));
}

absl::StatusOr<PromptPlan> PlanRaw(const Core& core, const char* field, const GatewayRequest::RawPrompt& prompt) {
  PromptPlan plan;
  plan.raw = true;
  plan.ids = prompt.ids.empty() ? core.parts.tokenizer->Encode(prompt.text, true) : prompt.ids;
  for (const int32_t id : plan.ids) {
    if (id >= core.parts.tokenizer->vocab_size()) {
      return BadRequest(field, absl::StrCat("the token id ", id, " is not in the vocabulary, whose size is ",
                                            core.parts.tokenizer->vocab_size()));
    }
  }
  if (plan.ids.empty()) return BadRequest(field, "the prompt has no tokens");
  plan.pieces = PromptPieces(plan.ids, 0);
  plan.prefill = PrefillIn(core, plan.ids);
  return plan;
}

}  // namespace

History::KeptPrefix KeptPrefixOf(const Core& core, const text::Conversation& conversation, size_t message,
                                 std::span<const int32_t> sampled, const std::string& prefill) {
  const text::Message& sent = conversation.messages[message];
  if (!sent.tool_calls.empty() || TrimmedSize(sent.content) == 0) return {};
  const auto reader = [&] {
    return TurnText(
        {.tokenizer = core.parts.tokenizer,
         .ends = core.parts.format->end_of_turn_ids(),
         .format = core.parts.format->output(),
         .reading = {.tools = conversation.tools,
                     .prefill = prefill,
                     .calls = conversation.tools.empty() ? text::CallMode::kText : text::CallMode::kStreamed}});
  };
  TurnText streamed = reader();
  std::string content;
  size_t pushed = 0;
  while (TrimmedSize(content) < TrimmedSize(sent.content)) {
    if (pushed == sampled.size()) return {};
    streamed.Push(sampled.subspan(pushed++, 1));
    for (const TurnText::Delta& delta : streamed.Take()) {
      if (delta.kind == PartKind::kContent) content += delta.text;
    }
  }
  // What comes of an id may be held back until the next ones are there.
  History::KeptPrefix kept;
  kept.ids = static_cast<size_t>(streamed.delivered_tokens());
  TurnText whole = reader();
  whole.Push(sampled.first(kept.ids));
  whole.Finish("");
  kept.message.role = "assistant";
  kept.message.content = whole.message().content;
  kept.message.reasoning = whole.message().reasoning;
  kept.message.tool_calls = whole.message().tool_calls;
  const bool same = MessageKey(kept.message) == MessageKey(sent) &&
                    SameReasoning(sent.reasoning, ReasoningKey(kept.message.reasoning));
  return same ? kept : History::KeptPrefix();
}

absl::StatusOr<PromptPlan> PlanPrompt(const Core& core, Episode* episode, const GatewayRequest& request,
                                      int raw_prompt) {
  if (!request.raw_prompts.empty()) {
    return PlanRaw(core, request.prompt_field, request.raw_prompts.at(raw_prompt));
  }
  PromptPlan plan;
  plan.keys = ConversationKeys::Of(request.conversation);
  if (episode != nullptr) {
    const auto find_kept = [&core](const text::Conversation& conversation, size_t message,
                                   std::span<const int32_t> sampled, const std::string& prefill) {
      return KeptPrefixOf(core, conversation, message, sampled, prefill);
    };
    plan.continued = episode->PlanPrompt(request.conversation, plan.keys, request.echoed_ids, find_kept);
  }
  Episode::Plan& continued = plan.continued;
  const text::Conversation& conversation =
      continued.conversation.has_value() ? *continued.conversation : request.conversation;
  if (continued.match.parent >= 0) {
    const bool keep = core.options.history_thinking == HistoryThinking::kKeep;
    const std::string cause = keep
                                  ? Continue(core, WithoutReasoning(conversation), text::EarlierTurns::kAsSampled, plan)
                                  : Continue(core, conversation, text::EarlierTurns::kAsTemplate, plan);
    if (!cause.empty()) {
      continued.match = {.parent = -1, .first_new = 0, .fork_cause = cause};
      continued.ids.clear();
      continued.unrecorded.reset();
      continued.parent_call_id.clear();
    }
  }
  if (continued.match.parent < 0) {
    INGOT_RETURN_IF_ERROR(RenderWhole(core, request.prompt_field, conversation, plan));
  }
  plan.reasoning = ReasoningOf(conversation, continued.match.first_new);
  continued.conversation.reset();
  return plan;
}

}  // namespace ingot::gateway
