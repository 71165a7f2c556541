// Declares the dialect objects and the helpers that several dialects share. Internal to this directory.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "gateway/api/dialect.h"

namespace ingot::gateway {

const Dialect& CompletionsDialect();
const Dialect& ResponsesDialect();
const Dialect& MessagesDialect();
const Dialect& CountTokensDialect();
const Dialect& InputTokensDialect();
const Dialect& StreamGenerateContentDialect();
const Dialect& GoogleCountTokensDialect();

std::unique_ptr<Renderer> NewChatRenderer(ReplyHead head, std::shared_ptr<const GatewayRequest> request);
std::unique_ptr<Renderer> NewCompletionsRenderer(ReplyHead head, std::shared_ptr<const GatewayRequest> request);
std::unique_ptr<Renderer> NewResponsesRenderer(ReplyHead head, std::shared_ptr<const GatewayRequest> request);
std::unique_ptr<Renderer> NewMessagesRenderer(ReplyHead head, std::shared_ptr<const GatewayRequest> request);
std::unique_ptr<Renderer> NewGoogleRenderer(ReplyHead head, std::shared_ptr<const GatewayRequest> request);
// Returns a renderer that replies with the prompt's token count in `field` and the members in `more`.
std::unique_ptr<Renderer> NewCountRenderer(std::shared_ptr<const GatewayRequest> request, const char* field,
                                           base::json::object more = {});

// Returns {"type":"error","error":{"type":...,"message":...}}, with status 529 if the gateway is overloaded.
Dialect::Error AnthropicError(const absl::Status& status);

// Returns {"error":{"code":...,"message":...,"status":"INVALID_ARGUMENT",...,"details":[...]}}.
Dialect::Error GoogleError(const absl::Status& status);
std::string GoogleModelJson(const ServedModel& model);
std::string GoogleModelsJson(std::span<const ServedModel> models);

// Serializes the object with one additional member, whose value is the JSON `text`. REQUIRES: `json` is not empty.
std::string WithMember(const base::json::object& json, std::string_view name, std::string_view text);

// Returns the end of an OpenAI stream: [DONE], or the error as an event.
std::string DoneOrError(const absl::Status& status);
// Names of OpenAI's usage fields, which differ between chat completions and the Responses API.
struct UsageNames {
  const char* input;
  const char* input_details;
  const char* output;
  const char* output_details;
};
inline constexpr UsageNames kChatUsage = {"prompt_tokens", "prompt_tokens_details", "completion_tokens",
                                          "completion_tokens_details"};
inline constexpr UsageNames kResponsesUsage = {"input_tokens", "input_tokens_details", "output_tokens",
                                               "output_tokens_details"};
base::json::object UsageJson(const Usage& usage, const UsageNames& names);

// Returns {"token", "logprob", "bytes", "top_logprobs"} for each token of the content, or for every token, as in
// IdsJson, if `all` is true.
base::json::array LogprobsJson(const std::vector<Token>& tokens, bool all = false);
// Returns {"content": LogprobsJson} for a reply. If the reply has token ids, it covers all tokens, so each id has a
// log-prob, including the end of the turn, reasoning, calls, and delimiters.
base::json::object LogprobsBeside(const GatewayRequest& request, const std::vector<Token>& tokens);
// Returns the token's bytes as UTF-8, which JSON requires.
std::string TokenText(const std::string& bytes);
base::json::array IdsJson(const std::vector<Token>& tokens);
base::json::array IdsJson(const std::vector<int32_t>& ids);

}  // namespace ingot::gateway
