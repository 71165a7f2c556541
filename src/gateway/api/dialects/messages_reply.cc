// Renders the replies to POST /v1/messages.
#include <utility>

#include "base/printable.h"
#include "gateway/api/api_error.h"
#include "gateway/api/conversation_builder.h"
#include "gateway/api/dialects/dialects.h"
#include "text/output/readable_object.h"

namespace ingot::gateway {
namespace {

using base::json::array;
using base::json::object;
using base::json::value;

const char* ErrorType(int http) {
  switch (http) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 413:
      return "request_too_large";
    case 429:
      return "rate_limit_error";
    case 504:
      return "timeout_error";
    case 529:
      return "overloaded_error";
    default:
      return http >= 500 ? "api_error" : "invalid_request_error";
  }
}

class MessagesRenderer final : public Renderer {
 public:
  using Renderer::Renderer;

  std::string Whole() override {
    const Choice& choice = choices()[0];
    std::string content = "[";
    for (size_t i = 0; i < choice.parts.size(); ++i) {
      if (!Emits(choice.parts[i])) continue;
      if (content.size() > 1) content += ',';
      content += BlockText(choice, i);
    }
    content += ']';
    object rest;
    Stop(choice, rest);
    rest["usage"] = UsageJson(choice.end.usage);
    if (request().return_token_ids) {
      rest["prompt_token_ids"] = IdsJson(choice.begin.prompt_ids);
      rest["token_ids"] = IdsJson(choice.Tokens());
    }
    if (request().logprobs) rest["logprobs"] = LogprobsBeside(request(), choice.Tokens());
    std::string reply = WithMember(Head(), "content", content);
    reply.back() = ',';
    return reply.append(base::PrintJson(rest), 1);
  }
  std::string Trailer(const absl::Status& status) override {
    return status.ok() ? "" : WireEvent{"error", AnthropicError(status).body, {}}.Sse();
  }

 private:
  object Head() const {
    return {{"id", "msg_" + head().id}, {"type", "message"}, {"role", "assistant"}, {"model", head().model}};
  }
  static object UsageJson(const Usage& usage) {
    object json;
    json["input_tokens"] = usage.prompt_tokens - usage.cached_tokens;
    json["cache_creation_input_tokens"] = 0;
    json["cache_read_input_tokens"] = usage.cached_tokens;
    json["output_tokens"] = usage.completion_tokens;
    return json;
  }
  static void Stop(const Choice& choice, object& json) {
    const AnswerEnd& end = choice.end;
    json["stop_reason"] = !end.stop_string.empty()          ? "stop_sequence"
                          : end.finish == v1::FINISH_LENGTH ? "max_tokens"
                          : choice.has_calls()              ? "tool_use"
                                                            : "end_turn";
    json["stop_sequence"] = end.stop_string.empty() ? value(nullptr) : value(end.stop_string);
  }
  bool Emits(const Part& part) const { return request().emits_reasoning || part.kind != PartKind::kReasoning; }
  // Returns the last part's index among the blocks that are sent.
  size_t BlockIndex(const Choice& choice) const {
    size_t index = 0;
    for (const Part& part : choice.parts) index += Emits(part);
    return index - 1;
  }
  // Identifies the call that the thinking belongs to, in case a client sends it back.
  std::string Signature(size_t part) const { return EchoedId("sig", head().id, static_cast<int>(part)); }
  // A call's input is the same string that a stream sends, so numbers keep all their digits in both.
  std::string BlockText(const Choice& choice, size_t index) const {
    const Part& part = choice.parts[index];
    switch (part.kind) {
      case PartKind::kReasoning:
        return base::PrintJson(object{{"type", "thinking"}, {"thinking", part.text}, {"signature", Signature(index)}});
      case PartKind::kContent:
        return base::PrintJson(object{{"type", "text"}, {"text", part.text}});
      default:
        return WithMember({{"type", "tool_use"}, {"id", part.id}, {"name", part.name}}, "input",
                          text::ReadableObjectText(part.text));
    }
  }

  void SendTyped(const char* type, object data) {
    object json{{"type", type}};
    for (auto& [name, field] : data) json[name] = std::move(field);
    Send(type, json);
  }
  void SendInput(const Choice& choice, std::string json) {
    if (!json.empty()) SendDelta(choice, {{"type", "input_json_delta"}, {"partial_json", std::move(json)}});
  }
  void SendDelta(const Choice& choice, object delta) {
    SendTyped("content_block_delta", {{"index", BlockIndex(choice)}, {"delta", std::move(delta)}});
  }
  void OnBegin(const Choice& choice) override {
    object message = Head();
    message["content"] = array{};
    message["stop_reason"] = nullptr;
    message["stop_sequence"] = nullptr;
    message["usage"] = UsageJson({.prompt_tokens = choice.begin.prompt_tokens});
    if (request().return_token_ids) message["prompt_token_ids"] = IdsJson(choice.begin.prompt_ids);
    SendTyped("message_start", {{"message", std::move(message)}});
    SendTyped("ping", {});
  }
  void OnPartBegin(const Choice& choice) override {
    if (!Emits(choice.parts.back())) return;
    object block;
    switch (choice.parts.back().kind) {
      case PartKind::kReasoning:
        block = {{"type", "thinking"}, {"thinking", ""}, {"signature", ""}};
        break;
      case PartKind::kContent:
        block = {{"type", "text"}, {"text", ""}};
        break;
      case PartKind::kCall:
        block = {{"type", "tool_use"}, {"id", choice.parts.back().id}, {"name", choice.parts.back().name}};
        block["input"] = object{};
        input_ = {};
    }
    SendTyped("content_block_start", {{"index", BlockIndex(choice)}, {"content_block", std::move(block)}});
  }
  void OnDelta(const Choice& choice, const PartDelta& delta) override {
    if (!Emits(choice.parts.back())) return;
    switch (choice.parts.back().kind) {
      case PartKind::kReasoning:
        return SendDelta(choice, {{"type", "thinking_delta"}, {"thinking", delta.text}});
      case PartKind::kContent:
        return SendDelta(choice, {{"type", "text_delta"}, {"text", delta.text}});
      case PartKind::kCall:
        return SendInput(choice, input_.Push(delta.text));
    }
  }
  void OnPartEnd(const Choice& choice) override {
    if (!Emits(choice.parts.back())) return;
    if (choice.parts.back().kind == PartKind::kReasoning) {
      SendDelta(choice, {{"type", "signature_delta"}, {"signature", Signature(choice.parts.size() - 1)}});
    }
    if (choice.parts.back().kind == PartKind::kCall) SendInput(choice, input_.Finish());
    SendTyped("content_block_stop", {{"index", BlockIndex(choice)}});
  }
  void OnEnd(const Choice& choice) override {
    object delta;
    Stop(choice, delta);
    object json{{"delta", std::move(delta)}, {"usage", UsageJson(choice.end.usage)}};
    if (request().return_token_ids) json["token_ids"] = IdsJson(choice.Tokens());
    if (request().logprobs) json["logprobs"] = LogprobsBeside(request(), choice.Tokens());
    SendTyped("message_delta", std::move(json));
    SendTyped("message_stop", {});
  }

  text::ReadableObject input_;  // the last part's input, if it is a call
};

}  // namespace

Dialect::Error AnthropicError(const absl::Status& status) {
  Dialect::Error error;
  error.http = HttpStatusOf(status);
  if (error.http == 503) error.http = 529;
  std::string message = base::CutMessage({status.message().data(), status.message().size()});
  // Clients look for these words to know that they must compact.
  if (ErrorCodeOf(status) == kContextLengthExceeded) message = "prompt is too long: " + message;
  object inner{{"type", ErrorType(error.http)}, {"message", std::move(message)}};
  error.body = base::PrintJson(object{{"type", "error"}, {"error", std::move(inner)}});
  return error;
}

std::unique_ptr<Renderer> NewMessagesRenderer(ReplyHead head, std::shared_ptr<const GatewayRequest> request) {
  return std::make_unique<MessagesRenderer>(std::move(head), std::move(request));
}

}  // namespace ingot::gateway
