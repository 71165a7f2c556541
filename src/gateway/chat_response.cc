#include "gateway/chat_response.h"

#include <utility>

namespace ingot::gateway {
namespace {

using base::json::array;
using base::json::object;
using base::json::value;

object UsageJson(const Usage& usage) {
  object json;
  json["prompt_tokens"] = usage.prompt_tokens;
  json["completion_tokens"] = usage.completion_tokens;
  json["total_tokens"] = usage.prompt_tokens + usage.completion_tokens;
  json["prompt_tokens_details"] = object{{"cached_tokens", usage.cached_tokens}};
  return json;
}

// A token's text as JSON can hold it, and its bytes as they are.
object TokenJson(int32_t id, float logprob, const text::Tokenizer& tokenizer) {
  const std::string bytes = tokenizer.Decode(std::span(&id, 1), false);
  text::Utf8Stream utf8;
  std::string text = utf8.Push(bytes);
  text += utf8.Flush();
  array numbers;
  for (const char byte : bytes) numbers.emplace_back(static_cast<unsigned char>(byte));
  object json;
  json["token"] = std::move(text);
  json["logprob"] = logprob;
  json["bytes"] = std::move(numbers);
  return json;
}

}  // namespace

std::string FinishReasonText(v1::FinishReason finish, bool has_tool_calls) {
  if (finish == v1::FINISH_LENGTH) return "length";
  return has_tool_calls ? "tool_calls" : "stop";
}

value LogprobsJson(const Generation& generation, int first, int last, const text::Tokenizer& tokenizer) {
  array content;
  for (int i = first; i < last; ++i) {
    object token = TokenJson(generation.segment.token_ids(i), generation.segment.logprobs(i), tokenizer);
    array top;
    if (i < static_cast<int>(generation.top_logprobs.size())) {
      for (const v1::TopLogprob& entry : generation.top_logprobs[i].entries()) {
        top.emplace_back(TokenJson(entry.token_id(), entry.logprob(), tokenizer));
      }
    }
    token["top_logprobs"] = std::move(top);
    content.emplace_back(std::move(token));
  }
  return object{{"content", std::move(content)}, {"refusal", nullptr}};
}

object ChatRenderer::Head(const char* kind) const {
  object json;
  json["id"] = id_;
  json["object"] = kind;
  json["created"] = created_;
  json["model"] = model_;
  return json;
}

object ChatRenderer::Choice(const text::Message& message, const std::string& finish_reason, value logprobs) {
  object json;
  json["role"] = "assistant";
  json["content"] = message.content.empty() && !message.tool_calls.empty() ? value(nullptr) : value(message.content);
  json["refusal"] = nullptr;
  if (!message.reasoning.empty()) json["reasoning_content"] = message.reasoning;
  if (!message.tool_calls.empty()) {
    array calls;
    for (const text::ToolCall& call : message.tool_calls) {
      calls.emplace_back(object{{"id", call.id},
                                {"type", "function"},
                                {"function", object{{"name", call.name}, {"arguments", call.arguments_json}}}});
    }
    json["tool_calls"] = std::move(calls);
  }
  object choice;
  choice["index"] = 0;
  choice["message"] = std::move(json);
  choice["logprobs"] = std::move(logprobs);
  choice["finish_reason"] = finish_reason;
  return choice;
}

object ChatRenderer::Completion(object choice, const Usage& usage) const {
  object json = Head("chat.completion");
  json["choices"] = array{std::move(choice)};
  json["usage"] = UsageJson(usage);
  json["system_fingerprint"] = nullptr;
  return json;
}

object ChatRenderer::Chunk(object delta, const std::string& finish_reason, value logprobs, bool usage_asked) const {
  object choice;
  choice["index"] = 0;
  choice["delta"] = std::move(delta);
  choice["logprobs"] = std::move(logprobs);
  choice["finish_reason"] = finish_reason.empty() ? value(nullptr) : value(finish_reason);
  object json = Head("chat.completion.chunk");
  json["system_fingerprint"] = nullptr;
  json["choices"] = array{std::move(choice)};
  if (usage_asked) json["usage"] = nullptr;
  return json;
}

object ChatRenderer::UsageChunk(const Usage& usage) const {
  object json = Head("chat.completion.chunk");
  json["system_fingerprint"] = nullptr;
  json["choices"] = array{};
  json["usage"] = UsageJson(usage);
  return json;
}

}  // namespace ingot::gateway
