// Renders the replies to POST /v1/chat/completions.
#include <utility>

#include "gateway/api/dialects/dialects.h"
#include "gateway/api/request_fields.h"

namespace ingot::gateway {
namespace {

using base::json::array;
using base::json::object;
using base::json::value;

class ChatRenderer final : public Renderer {
 public:
  using Renderer::Renderer;

  std::string Whole() override {
    object json = Head("chat.completion");
    array list;
    for (const Choice& choice : choices()) list.emplace_back(ChoiceJson(choice));
    json["choices"] = std::move(list);
    json["usage"] = UsageJson(TotalUsage(), kChatUsage);
    if (request().return_token_ids) json["prompt_token_ids"] = IdsJson(choices()[0].begin.prompt_ids);
    return base::PrintJson(json);
  }
  std::string Trailer(const absl::Status& status) override { return DoneOrError(status); }

 private:
  // Returns true if tools were declared in the older format, which allows a single call.
  bool OldCalls() const { return !request().tools.empty() && request().tools[0].kind == ToolKind::kOldFunction; }
  const char* FinishText(const Choice& choice) const {
    if (choice.end.finish == v1::FINISH_LENGTH) return "length";
    if (!choice.has_calls()) return "stop";
    return OldCalls() ? "function_call" : "tool_calls";
  }

  void OnBegin(const Choice& choice) override {
    object more;
    if (request().return_token_ids) more["prompt_token_ids"] = IdsJson(choice.begin.prompt_ids);
    SendChunk(choice, R"({"role":"assistant","content":""})", nullptr, nullptr, more);
  }
  void OnPartBegin(const Choice& choice) override {
    const Part& part = choice.parts.back();
    if (part.kind != PartKind::kCall || Dropped(choice)) return;
    object call = CallJson(part, "");
    if (!OldCalls()) call["index"] = CallIndex(choice);
    const std::string json = base::PrintJson(call);
    SendChunk(choice, OldCalls() ? absl::StrCat(R"({"function_call":)", json, "}") : CallsText(json), nullptr, nullptr);
  }
  void OnDelta(const Choice& choice, const PartDelta& delta) override {
    const Part& part = choice.parts.back();
    if (part.kind == PartKind::kCall && IsCustom(part)) return;  // its text is sent when the arguments are complete
    std::string text;
    if (part.kind == PartKind::kCall && OldCalls()) {
      text = Dropped(choice) ? "{}" : Around(R"({"function_call":{"arguments":)", delta.text, "}}");
    } else if (part.kind == PartKind::kCall) {
      const std::string index = absl::StrCat(R"({"index":)", CallIndex(choice), R"(,"function":{"arguments":)");
      text = CallsText(Around(index, delta.text, "}}"));
    } else if (part.kind == PartKind::kReasoning) {
      text = Around(R"({"reasoning_content":)", delta.text, "}");
    } else {
      text = Around(R"({"content":)", delta.text, "}");
    }
    SendChunk(choice, text, nullptr, delta.tokens.empty() ? nullptr : &delta.tokens);
  }
  void OnPartEnd(const Choice& choice) override {
    const Part& part = choice.parts.back();
    if (part.kind != PartKind::kCall || !IsCustom(part)) return;
    const object call{{"index", CallIndex(choice)}, {"custom", object{{"input", CustomInput(part.text)}}}};
    SendChunk(choice, CallsText(base::PrintJson(call)), nullptr, part.tokens.empty() ? nullptr : &part.tokens);
  }
  void OnEnd(const Choice& choice) override { SendChunk(choice, "{}", FinishText(choice), &choice.end.tokens); }
  void OnClose() override {
    if (!request().include_usage) return;
    object json = Head("chat.completion.chunk");
    json["choices"] = array{};
    json["usage"] = UsageJson(TotalUsage(), kChatUsage);
    Send("", json);
  }

  bool IsCustom(const Part& call) const {
    const Tool* tool = request().FindTool(call.name);
    return tool != nullptr && tool->kind == ToolKind::kCustom;
  }
  // Returns true if the last part is a call that the older format cannot represent.
  bool Dropped(const Choice& choice) const { return OldCalls() && CallIndex(choice) > 0; }
  static int CallIndex(const Choice& choice) {
    int index = -1;
    for (const Part& part : choice.parts) index += part.kind == PartKind::kCall;
    return index;
  }
  object CallJson(const Part& call, const std::string& arguments) const {
    if (OldCalls()) return {{"name", call.name}, {"arguments", arguments}};
    if (IsCustom(call)) {
      return {{"id", call.id},
              {"type", "custom"},
              {"custom", object{{"name", call.name}, {"input", arguments.empty() ? "" : CustomInput(arguments)}}}};
    }
    return {{"id", call.id}, {"type", "function"}, {"function", object{{"name", call.name}, {"arguments", arguments}}}};
  }

  object Head(const char* kind) const {
    object json;
    json["id"] = "chatcmpl-" + head().id;
    json["object"] = kind;
    json["created"] = head().created_unix_s;
    json["model"] = head().model;
    json["system_fingerprint"] = nullptr;
    return json;
  }
  static std::string Around(std::string_view before, std::string_view string, std::string_view after) {
    std::string json(before);
    base::AppendJsonString(string, json);
    return json.append(after);
  }
  static std::string CallsText(std::string_view call) {
    return absl::StrCat(R"({"tool_calls":[)", base::View(call), "]}");
  }
  // Formats the chunk as a string because most chunks in a stream differ in only one string. If `tokens` is null, the
  // chunk has no token fields. `more` holds additional fields, written last.
  void SendChunk(const Choice& choice, std::string_view delta, const char* finish, const std::vector<Token>* tokens,
                 const object& more = {}) {
    // All chunks have the same head, so it is formatted only once.
    if (chunk_head_.empty()) {
      chunk_head_ = base::PrintJson(Head("chat.completion.chunk"));
      chunk_head_.back() = ',';
      chunk_head_ += R"("choices":[{"index":)";
    }
    std::string text;
    text.reserve(chunk_head_.size() + delta.size() + 80);
    absl::StrAppend(&text, chunk_head_, choice.index, R"(,"delta":)", base::View(delta), R"(,"logprobs":)");
    text += tokens != nullptr && request().logprobs ? base::PrintJson(LogprobsOf(*tokens)) : "null";
    if (finish == nullptr) text += R"(,"finish_reason":null)";
    if (finish != nullptr) absl::StrAppend(&text, R"(,"finish_reason":")", finish, "\"");
    if (tokens != nullptr && request().return_token_ids) {
      absl::StrAppend(&text, R"(,"token_ids":)", base::PrintJson(IdsJson(*tokens)));
    }
    text += request().include_usage ? R"(}],"usage":null)" : "}]";
    if (more.empty()) text += '}';
    if (!more.empty()) absl::StrAppend(&text, ",", base::PrintJson(more).substr(1));
    SendText("", std::move(text));
  }
  object LogprobsOf(const std::vector<Token>& tokens) const {
    object json = LogprobsBeside(request(), tokens);
    json["refusal"] = nullptr;
    return json;
  }
  void AddTokens(const std::vector<Token>& tokens, object& choice) const {
    if (request().logprobs) choice["logprobs"] = LogprobsOf(tokens);
    if (request().return_token_ids) choice["token_ids"] = IdsJson(tokens);
  }
  object ChoiceJson(const Choice& choice) const {
    const std::string content = choice.TextOf(PartKind::kContent), reasoning = choice.TextOf(PartKind::kReasoning);
    object message;
    message["role"] = "assistant";
    message["content"] = content.empty() && choice.has_calls() ? value(nullptr) : value(content);
    message["refusal"] = nullptr;
    if (!reasoning.empty()) message["reasoning_content"] = reasoning;
    array calls;
    for (const Part& part : choice.parts) {
      if (part.kind == PartKind::kCall) calls.emplace_back(CallJson(part, part.text));
    }
    if (!calls.empty() && OldCalls()) {
      message["function_call"] = std::move(calls[0]);
    } else if (!calls.empty()) {
      message["tool_calls"] = std::move(calls);
    }
    object json;
    json["index"] = choice.index;
    json["message"] = std::move(message);
    json["logprobs"] = nullptr;
    json["finish_reason"] = FinishText(choice);
    AddTokens(choice.Tokens(), json);
    return json;
  }

  std::string chunk_head_;  // empty = not formatted yet
};

}  // namespace

std::unique_ptr<Renderer> NewChatRenderer(ReplyHead head, std::shared_ptr<const GatewayRequest> request) {
  return std::make_unique<ChatRenderer>(std::move(head), std::move(request));
}

}  // namespace ingot::gateway
