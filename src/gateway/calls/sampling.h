// The sampling parameters of a call: the configured or the client's distribution, limits, and constraints on the
// answer.
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

// The context of the backend's engine in tokens; 0 or less = no limit. Asks each engine once.
absl::StatusOr<int64_t> ContextOf(const Backend& backend);
// 400 context_length_exceeded, naming the request's `field`. `at_least`: the prompt may have more tokens.
absl::Status PromptTooLong(int64_t context, const char* field, size_t prompt_tokens, bool at_least);

// Training and evaluation sample from the configured distribution, without the client's penalties and biases, so that
// their calls can be trained on. Constraints on the answer (response_format, tool_choice, min_tokens) apply in every
// episode; such calls are flagged and left out of training. Each choice of a request has its own seed.
v1::SamplingParams PlanSampling(const Core& core, const v1::Episode& episode, const GatewayRequest& request,
                                int32_t sequence, int choice, const PromptPlan& prompt);

// 400: a stop id is not in the vocabulary.
absl::Status CheckStopIds(const text::Tokenizer& tokenizer, const GatewayRequest& request);

// 400 tool_choice_unsupported: a call is required, but the output format cannot write it, or sampling cannot be
// constrained to it.
absl::Status CheckToolChoice(const text::ChatFormat& format, const GatewayRequest& request);

// The grammar for tool_choice and response_format; nullopt: no constraint, or sampling cannot be constrained to a
// tool's calls. A required choice is exactly one call if the client names the tool or wants no parallel calls, else one
// or more. `thinking_open`: the prompt ends inside the reasoning. Then, or if the client asks for thinking, the grammar
// applies only after the reasoning.
std::optional<v1::Grammar> GrammarOf(const text::ChatFormat& format, const GatewayRequest& request, bool thinking_open);

// The request's field that caused the engine to reject a field (base::Fault::field); empty = the client set no such
// field. `sent`: the parameters built from the request.
std::string ParamOf(const std::string& field, const GatewayRequest& request, const v1::SamplingParams& sent);

}  // namespace ingot::gateway
