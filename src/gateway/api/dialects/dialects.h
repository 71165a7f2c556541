// The object of each dialect, and helpers that several dialects share. Internal to the folder.
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
// Replies with the number of the prompt's tokens in `field`, and with the members of `more`.
std::unique_ptr<Renderer> NewCountRenderer(std::shared_ptr<const GatewayRequest> request, const char* field,
                                           base::json::object more = {});

// {"type":"error","error":{"type":...,"message":...}}; 529 if the gateway is overloaded.
Dialect::Error AnthropicError(const absl::Status& status);

// {"error":{"code":...,"message":...,"status":"INVALID_ARGUMENT",...,"details":[...]}}
Dialect::Error GoogleError(const absl::Status& status);
std::string GoogleModelJson(const ServedModel& model);
std::string GoogleModelsJson(std::span<const ServedModel> models);

// The text of an object with one more member, whose value is JSON text. REQUIRES: the object has a member.
std::string WithMember(const base::json::object& json, std::string_view name, std::string_view text);

// The end of an OpenAI stream: [DONE], or the error as an event.
std::string DoneOrError(const absl::Status& status);
// The field names of OpenAI's usage, which differ between chat completions and the Responses API.
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

// {"token", "logprob", "bytes", "top_logprobs"} of the content's tokens. `all`: of all of them, as in IdsJson.
base::json::array LogprobsJson(const std::vector<Token>& tokens, bool all = false);
// {"content": LogprobsJson} of a reply, with all tokens if the reply has their ids. Then each id has its log-prob, even
// the end of the turn, thoughts, calls and delimiters.
base::json::object LogprobsBeside(const GatewayRequest& request, const std::vector<Token>& tokens);
// The bytes of a token as UTF-8, which JSON requires.
std::string TokenText(const std::string& bytes);
base::json::array IdsJson(const std::vector<Token>& tokens);
base::json::array IdsJson(const std::vector<int32_t>& ids);

}  // namespace ingot::gateway
