// Computes a call's sampling parameters: the distribution, the limits, and the constraints on the answer. The
// distribution comes from the configuration or from the client.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/status.h"
#include "gateway/api/request.h"
#include "gateway/core.h"
#include "gateway/episodes/episode.h"
#include "gateway/prompt/prompt_plan.h"
#include "proto/tree.pb.h"

namespace ingot::gateway {

// Returns the context length of the backend's engine in tokens, or a value <= 0 if there is no limit. Queries each
// engine only once.
absl::StatusOr<int64_t> ContextOf(const Backend& backend);
// Returns 400 context_length_exceeded. The error names the request's `field`. If `at_least` is true, the prompt may
// have more than `prompt_tokens` tokens.
absl::Status PromptTooLong(int64_t context, const char* field, size_t prompt_tokens, bool at_least);

// Training and evaluation use the configured distribution without the client's penalties and biases, so their calls can
// be trained on. Constraints on the answer (response_format, tool_choice, min_tokens) apply in every episode.
// Constrained calls are flagged and excluded from training. Each choice in a request has its own seed.
v1::SamplingParams PlanSampling(const Core& core, const Episode& episode, const GatewayRequest& request,
                                int32_t sequence, int choice, const PromptPlan& prompt);

// Fails with 400 if a stop id is not in the vocabulary.
absl::Status CheckStopIds(const text::Tokenizer& tokenizer, const GatewayRequest& request);

// Fails with 400 tool_choice_unsupported if a call is required, but the output format has no calls or sampling cannot
// be constrained to them.
absl::Status CheckToolChoice(const text::ChatFormat& format, const GatewayRequest& request);

// Returns the grammar for tool_choice and response_format, or nullopt if there is no constraint or if sampling cannot
// be constrained to tool calls. A required choice is exactly one call if the client names the tool or disables parallel
// calls, and otherwise one or more. `thinking_open` is true if the prompt ends inside the reasoning. In that case, or
// if the client enables thinking, the grammar applies only after the reasoning.
std::optional<v1::Grammar> GrammarOf(const text::ChatFormat& format, const GatewayRequest& request, bool thinking_open);

// Returns the request field that made the engine reject `field` (base::Fault::field), or "" if the client did not set
// such a field. `sent` contains the parameters built from the request.
std::string ParamOf(const std::string& field, const GatewayRequest& request, const v1::SamplingParams& sent);

}  // namespace ingot::gateway
