// What the engine is asked to do for a call: its configuration's distribution or its client's, the limits, and what
// sampling is held to.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/status.h"
#include "gateway/api/request.h"
#include "gateway/core.h"
#include "gateway/prompt/prompt_plan.h"
#include "proto/tree.pb.h"

namespace ingot::gateway {

// 400 context_length_exceeded, naming the request's `field`, if the prompt leaves no room. Asks the engine for its
// context length, once.
absl::Status CheckContext(const Backend& backend, const char* field, size_t prompt_tokens);

// Training and evaluation sample from the configured distribution whatever the client asks, without its penalties and
// biases: so their calls stay trainable. What an answer must be (response_format, tool_choice) is applied in every
// episode and flagged: such calls are left out of training. `choice`, of several to one request, draws by a seed of its
// own.
v1::SamplingParams PlanSampling(const Core& core, const v1::Episode& episode, const GatewayRequest& request,
                                int32_t sequence, int choice, const PromptPlan& prompt);

// 400 tool_choice_unsupported if a call is required that the model's output format has no way to write, or none that
// sampling can be held to.
absl::Status CheckToolChoice(const text::ChatFormat& format, const GatewayRequest& request);

// What tool_choice and response_format hold the answer to; nullopt: nothing, or a tool's calls can be written in no way
// that sampling can be held to. A required choice is one call where the client names the tool or wants no parallel
// calls, else one or more. `thinking_open`: the prompt ends inside the reasoning; then, or where the client asks for
// thinking, only what follows the reasoning is held to anything.
std::optional<v1::Grammar> GrammarOf(const text::ChatFormat& format, const GatewayRequest& request, bool thinking_open);

// What the client called the field that the engine refuses (base::Fault::field); empty: nothing of its own. `sent` is
// what came of the request.
std::string ParamOf(const std::string& field, const GatewayRequest& request, const v1::SamplingParams& sent);

}  // namespace ingot::gateway
