// What a request's prompt is: the ids an earlier call of its episode continues with, and what is rendered anew.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "gateway/core.h"
#include "gateway/episode.h"
#include "gateway/request.h"

namespace ingot::gateway {

struct PromptPlan {
  bool raw = false;           // not rendered from a conversation: no later request continues it
  ConversationKeys keys;      // unless raw
  Episode::Plan continued;    // what it continues; nothing if its match has no parent
  std::vector<Piece> pieces;  // of the prompt, after those of continued.path
  std::vector<int32_t> ids;   // the whole prompt
  std::string prefill;        // what of the answer the prompt has written already (text::RenderedPrompt)
};

// The prompt of the conversation, or of one of the raw prompts. Errors are the client's: 400. `episode` null: nothing
// is continued, all of it is rendered.
absl::StatusOr<PromptPlan> PlanPrompt(const Core& core, const Episode* episode, const GatewayRequest& request,
                                      int raw_prompt);

}  // namespace ingot::gateway
