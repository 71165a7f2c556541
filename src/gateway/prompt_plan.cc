#include "gateway/prompt_plan.h"

#include <string>
#include <utility>

#include "base/log.h"
#include "gateway/api_error.h"
#include "gateway/generation.h"

namespace ingot::gateway {
namespace {

absl::Status RenderWhole(const Core& core, const text::Conversation& conversation, PromptPlan& plan) {
  auto rendered = core.parts.format->Render(conversation, true);
  if (!rendered.ok()) return BadRequest("messages", std::string(rendered.status().message()));
  const bool system = conversation.messages[0].role == "system";
  plan.pieces = PromptPieces(rendered->ids, system && !rendered->message_ends.empty() ? rendered->message_ends[0] : 0);
  plan.ids = std::move(rendered->ids);
  if (plan.ids.empty()) return BadRequest("messages", "the conversation renders to no tokens");
  return absl::OkStatus();
}

// False: the tail cannot be rendered on its own.
bool Continue(const Core& core, const text::Conversation& conversation, PromptPlan& plan) {
  const Episode::Plan& continued = plan.continued;
  auto tail = core.parts.format->RenderTail(conversation, continued.match.first_new, continued.parent_turn);
  if (!tail.ok()) {
    INGOT_LOG(debug, "after call {}: the tail does not render ({}): rendering everything", continued.parent_call_id,
              std::string(tail.status().message()));
    return false;
  }
  for (const Piece& piece : continued.path) {
    plan.ids.insert(plan.ids.end(), piece.segment->token_ids().begin(), piece.segment->token_ids().end());
  }
  plan.ids.insert(plan.ids.end(), tail->begin(), tail->end());
  plan.pieces = PromptPieces(*tail, 0);
  return true;
}

absl::StatusOr<PromptPlan> PlanRaw(const Core& core, const GatewayRequest::RawPrompt& prompt) {
  PromptPlan plan;
  plan.raw = true;
  plan.ids = prompt.ids.empty() ? core.parts.tokenizer->Encode(prompt.text, true) : prompt.ids;
  for (const int32_t id : plan.ids) {
    if (id >= core.parts.tokenizer->vocab_size()) {
      return BadRequest("prompt_token_ids",
                        absl::StrCat("the token id ", id, " is not in the vocabulary, whose size is ",
                                     core.parts.tokenizer->vocab_size()));
    }
  }
  if (plan.ids.empty()) return BadRequest("prompt", "the prompt has no tokens");
  plan.pieces = PromptPieces(plan.ids, 0);
  return plan;
}

}  // namespace

absl::StatusOr<PromptPlan> PlanPrompt(const Core& core, const Episode* episode, const GatewayRequest& request,
                                      int raw_prompt) {
  if (!request.raw_prompts.empty()) return PlanRaw(core, request.raw_prompts.at(raw_prompt));
  const text::Conversation& conversation = request.conversation;
  PromptPlan plan;
  plan.keys = ConversationKeys::Of(conversation);
  if (episode != nullptr) plan.continued = episode->PlanPrompt(conversation, plan.keys);
  if (plan.continued.match.parent >= 0 && !Continue(core, conversation, plan)) {
    plan.continued.match = {.parent = -1, .first_new = 0, .fork_cause = kForkTailFailed};
    plan.continued.path.clear();
    plan.continued.parent_call_id.clear();
  }
  if (plan.continued.match.parent < 0) INGOT_RETURN_IF_ERROR(RenderWhole(core, conversation, plan));
  return plan;
}

}  // namespace ingot::gateway
