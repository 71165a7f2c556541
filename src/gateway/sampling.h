// What the engine is asked to do for a call: its configuration's distribution or its client's, the limits, and what
// sampling is held to.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/status.h"
#include "gateway/core.h"
#include "gateway/prompt_plan.h"
#include "gateway/request.h"
#include "proto/tree.pb.h"

namespace ingot::gateway {

struct SamplingPlan {
  v1::SamplingParams params;
  // A stop string of the gateway's own, which ends the turn but stays in its text; empty: none.
  std::string own_stop;
};

// 400 context_length_exceeded if the prompt leaves no room. Asks the engine for its context length, once.
absl::Status CheckContext(const Backend& backend, size_t prompt_tokens);

// Training and evaluation sample from the configured distribution whatever the client asks, without its penalties and
// biases: so their calls stay trainable. What an answer must be (response_format, tool_choice) is applied in every
// episode and flagged: such calls are left out of training. `choice`, of several to one request, draws by a seed of its
// own.
SamplingPlan PlanSampling(const Core& core, const v1::Episode& episode, const GatewayRequest& request, int32_t sequence,
                          int choice, const PromptPlan& prompt);

// What tool_choice and response_format hold the answer to; nullopt: nothing, or the chat format cannot say how a call
// is written. `thinking_open`: the prompt ends inside the reasoning; then, or where the client asks for thinking, only
// what follows the reasoning is held to anything.
std::optional<v1::Grammar> GrammarOf(const text::ChatFormat& format, const GatewayRequest& request, bool thinking_open);

}  // namespace ingot::gateway
