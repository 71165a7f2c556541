// What a request's prompt is: the ids an earlier call of its episode continues with, and what is rendered anew.
//
// Guaranteed of a prompt that continues a call: it is, text for text, what the template writes for the request's
// conversation, with the ids that were sampled in the place of each continued turn. That holds because
//   1. what stands for a continued turn in the request equals in canonical form what those ids were delivered as
//      (history.h);
//   2. the template still writes the very text that the parent's prompt was made of, given the turns as they were
//      delivered: their keys are compared (text::TextKey), from parent to child down to a prompt that was
//      rendered whole. This catches what canonical forms pass over and the template may print: ids of tool calls,
//      further fields, the date;
//   3. what follows is the template's text from the turn's end on, and the turn stands in it where it was sampled
//      (text::ChatFormat::RenderTail).
// Where 2 or 3 does not hold, nothing is continued: all of it is rendered, and the cause is counted. With
// gateway.history_thinking keep, 2 is held to the conversation without reasoning, and 3 to the turn's end alone.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
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
  std::vector<Piece> pieces;  // of the prompt, after those of the path it continues
  std::vector<int32_t> ids;   // the whole prompt
  std::string prefill;        // what of the answer the prompt has written already (text::RenderedPrompt)
  std::string text_key;       // text::RenderedPrompt's
  ReasoningKeys reasoning;    // of the messages behind those that it continues
};

// The prompt of the conversation, or of one of the raw prompts. Errors are the client's: 400. `episode` null: nothing
// is continued, all of it is rendered.
absl::StatusOr<PromptPlan> PlanPrompt(const Core& core, Episode* episode, const GatewayRequest& request,
                                      int raw_prompt);

// History::FindKeptPrefix by the gateway's tokenizer and format: the fewest ids that read as the client's message. None
// for a message with tool calls, since clients do not keep calls cut at ids.
History::KeptPrefix KeptPrefixOf(const Core& core, const text::Conversation& conversation, size_t message,
                                 std::span<const int32_t> sampled, const std::string& prefill);

}  // namespace ingot::gateway
