// Renders the replies to POST /v1/responses.
#include "gateway/api/dialects/responses.h"

#include <utility>

#include "base/printable.h"
#include "gateway/api/api_error.h"
#include "gateway/api/client_tools.h"
#include "gateway/api/conversation_builder.h"
#include "gateway/api/dialects/dialects.h"
#include "gateway/api/request_fields.h"

namespace ingot::gateway {
namespace {

using base::json::array;
using base::json::object;
using base::json::value;

// The events and fields for one kind of part, which is either text in a list of parts or a call's text. nullptr = no
// such event.
struct Wording {
  const char* item_type;
  const char* id_prefix;
  const char* delta = nullptr;
  const char* done = nullptr;
  const char* done_field = nullptr;  // field in the `done` event and, for a call, in its item
  // Text only:
  const char* part_added = nullptr;
  const char* part_done = nullptr;
  const char* part_type = nullptr;
  const char* index_name = nullptr;
  const char* list_name = nullptr;  // field of the item
};
constexpr Wording kMessage = {"message",
                              "msg",
                              "response.output_text.delta",
                              "response.output_text.done",
                              "text",
                              "response.content_part.added",
                              "response.content_part.done",
                              "output_text",
                              "content_index",
                              "content"};
constexpr Wording kReasoning = {"reasoning",
                                "rs",
                                "response.reasoning_text.delta",
                                "response.reasoning_text.done",
                                "text",
                                "response.content_part.added",
                                "response.content_part.done",
                                "reasoning_text",
                                "content_index",
                                "content"};
constexpr Wording kSummary = {"reasoning",
                              "rs",
                              "response.reasoning_summary_text.delta",
                              "response.reasoning_summary_text.done",
                              "text",
                              "response.reasoning_summary_part.added",
                              "response.reasoning_summary_part.done",
                              "summary_text",
                              "summary_index",
                              "summary"};
constexpr Wording kFunctionCall = {"function_call",
                                   "fc",
                                   "response.function_call_arguments.delta",
                                   "response.function_call_arguments.done",
                                   "arguments",
                                   nullptr,
                                   nullptr,
                                   nullptr,
                                   nullptr,
                                   nullptr};
constexpr Wording kCustomCall = {"custom_tool_call",
                                 "ctc",
                                 "response.custom_tool_call_input.delta",
                                 "response.custom_tool_call_input.done",
                                 "input",
                                 nullptr,
                                 nullptr,
                                 nullptr,
                                 nullptr,
                                 nullptr};
class ResponsesRenderer final : public Renderer {
 public:
  using Renderer::Renderer;

  std::string Whole() override { return EndedResponse(choices()[0]); }
  std::string Trailer(const absl::Status& status) override {
    if (status.ok()) return "";
    const std::string code = ErrorCodeOf(status);
    object error{{"code", !code.empty()                 ? code
                          : HttpStatusOf(status) == 429 ? "rate_limit_exceeded"
                                                        : "server_error"},
                 {"message", base::CutMessage({status.message().data(), status.message().size()})}};
    constexpr char kFailed[] = "response.failed";
    return WireEvent{kFailed, EventText(kFailed, Response("failed", {{"error", std::move(error)}})), {}}.Sse();
  }

 private:
  // ---- The response itself ----

  // Returns the response as JSON. The repeated request fields were formatted when the request was parsed.
  std::string Response(const char* status, object changed = {}) const {
    static const object kUnasked{{"instructions", nullptr},
                                 {"max_output_tokens", nullptr},
                                 {"metadata", object{}},
                                 {"reasoning", object{{"effort", nullptr}, {"summary", nullptr}}},
                                 {"temperature", 1.0},
                                 {"text", object{{"format", object{{"type", "text"}}}}},
                                 {"tool_choice", "auto"},
                                 {"tools", array{}},
                                 {"top_p", 1.0},
                                 {"truncation", "disabled"},
                                 {"parallel_tool_calls", true},
                                 {"user", nullptr}};
    object json;
    json["id"] = "resp_" + head().id;
    json["object"] = "response";
    json["created_at"] = head().created_unix_s;
    json["status"] = status;
    json["background"] = false;
    json["error"] = nullptr;
    json["incomplete_details"] = nullptr;
    json["model"] = head().model;
    json["output"] = array{};
    json["previous_response_id"] = nullptr;
    json["service_tier"] = "default";
    json["store"] = false;
    json["top_logprobs"] = request().top_logprobs;
    json["usage"] = nullptr;
    for (auto& [name, field] : changed) json[name] = std::move(field);
    const RepeatedFields& repeated = request().repeated;
    for (const auto& [name, field] : kUnasked) {
      if (!repeated.json.contains(name)) json[name] = field;
    }
    std::string text = base::PrintJson(json);
    if (repeated.text.empty()) return text;
    text.back() = ',';
    return absl::StrCat(text, repeated.text, "}");
  }
  // Returns the response with its output.
  std::string EndedResponse(const Choice& choice) const {
    object changed;
    const bool cut = choice.end.finish == v1::FINISH_LENGTH;
    if (cut) changed["incomplete_details"] = object{{"reason", "max_output_tokens"}};
    array output;
    for (size_t i = 0; i < choice.parts.size(); ++i) output.emplace_back(Item(choice, i, true));
    changed["output"] = std::move(output);
    changed["usage"] = UsageJson(choice.end.usage, kResponsesUsage);
    if (request().return_token_ids) {
      changed["prompt_token_ids"] = IdsJson(choice.begin.prompt_ids);
      changed["token_ids"] = IdsJson(choice.Tokens());
      if (request().logprobs) changed["logprobs"] = LogprobsBeside(request(), choice.Tokens());
    }
    return Response(cut ? "incomplete" : "completed", std::move(changed));
  }
  // Returns an event with the response, as JSON.
  std::string EventText(const char* type, const std::string& response) {
    return absl::StrCat(R"({"type":")", type, R"(","sequence_number":)", sequence_++, R"(,"response":)", response, "}");
  }

  // ---- Items ----

  Wording WordingOf(const Part& part) const {
    if (part.kind == PartKind::kContent) return kMessage;
    if (part.kind == PartKind::kReasoning) return AsksSummary() ? kSummary : kReasoning;
    if (const ClientTool* own = ClientToolOf(part)) return {own->call_type, own->id_prefix};
    return IsCustom(part) ? kCustomCall : kFunctionCall;
  }
  // Returns nullptr if the part is not a call or if it calls a function or a custom tool.
  const ClientTool* ClientToolOf(const Part& part) const {
    const Tool* tool = part.kind == PartKind::kCall ? request().FindTool(part.name) : nullptr;
    return tool == nullptr ? nullptr : FindClientTool(tool->kind);
  }
  bool IsCustom(const Part& part) const {
    const Tool* tool = part.kind == PartKind::kCall ? request().FindTool(part.name) : nullptr;
    return tool != nullptr && tool->kind == ToolKind::kCustom;
  }
  bool AsksSummary() const {
    const value* reasoning = request().repeated.json.if_contains("reasoning");
    const value* summary = reasoning == nullptr ? nullptr : base::Find(*reasoning, "summary");
    return summary != nullptr && summary->is_string();
  }
  // A call's item id contains the call's index in the answer.
  std::string ItemId(const Part& part, size_t index) const {
    if (part.kind == PartKind::kCall) return WordingOf(part).id_prefix + part.id.substr(part.id.find('_'));
    return EchoedId(WordingOf(part).id_prefix, head().id, static_cast<int>(index));
  }
  // Returns a part's text as the client sees it.
  std::string WireText(const Part& part) const { return IsCustom(part) ? CustomInput(part.text) : part.text; }
  object TextPart(const Part& part, const std::string& text, bool with_tokens) const {
    object json{{"type", WordingOf(part).part_type}, {"text", text}};
    if (part.kind != PartKind::kContent) return json;
    json["annotations"] = array{};
    json["logprobs"] = with_tokens && request().logprobs ? LogprobsJson(part.tokens) : array{};
    return json;
  }
  object Item(const Choice& choice, size_t index, bool done) const {
    const Part& part = choice.parts[index];
    const Wording words = WordingOf(part);
    object item{{"id", ItemId(part, index)}, {"type", words.item_type}};
    if (part.kind != PartKind::kReasoning)
      item["status"] = part.cut ? "incomplete" : done ? "completed" : "in_progress";
    if (part.kind == PartKind::kCall) {
      AddCall(part, words, done, item);
      return item;
    }
    if (part.kind == PartKind::kContent) item["role"] = "assistant";
    if (part.kind == PartKind::kReasoning) item["summary"] = array{};
    item[words.list_name] = done ? array{TextPart(part, part.text, true)} : array{};
    if (part.kind == PartKind::kReasoning && request().seals_reasoning) {
      item["encrypted_content"] = SealReasoning(done ? part.text : "", ItemId(part, index));
    }
    return item;
  }
  void AddCall(const Part& part, const Wording& words, bool done, object& item) const {
    const Tool* tool = request().FindTool(part.name);
    item["call_id"] = part.id;
    if (const ClientTool* own = ClientToolOf(part)) {
      item[own->asked] = AskedOf(*own, done ? part.text : "");
      return;
    }
    item["name"] = tool == nullptr ? part.name : tool->wire_name;
    if (tool != nullptr && !tool->name_space.empty()) item["namespace"] = tool->name_space;
    item[words.done_field] = done ? WireText(part) : "";
  }

  // ---- Events ----

  object Typed(const char* type, object data) {
    object json{{"type", type}, {"sequence_number", sequence_++}};
    for (auto& [name, field] : data) json[name] = std::move(field);
    return json;
  }
  void SendTyped(const char* type, object data) { Send(type, Typed(type, std::move(data))); }
  // Sends an event of the last item.
  void SendOfItem(const Choice& choice, const char* type, object data) {
    if (type == nullptr) return;
    const Part& part = choice.parts.back();
    const size_t index = choice.parts.size() - 1;
    object json{{"item_id", ItemId(part, index)}, {"output_index", index}};
    if (WordingOf(part).index_name != nullptr) json[WordingOf(part).index_name] = 0;
    for (auto& [name, field] : data) json[name] = std::move(field);
    SendTyped(type, std::move(json));
  }
  void SendItem(const Choice& choice, const char* type, bool done) {
    const size_t index = choice.parts.size() - 1;
    SendTyped(type, {{"output_index", index}, {"item", Item(choice, index, done)}});
  }

  void OnBegin(const Choice&) override {
    const std::string response = Response("in_progress");
    for (const char* type : {"response.created", "response.in_progress"}) SendText(type, EventText(type, response));
  }
  void OnPartBegin(const Choice& choice) override {
    const Part& part = choice.parts.back();
    SendItem(choice, "response.output_item.added", false);
    if (part.kind != PartKind::kCall) {
      SendOfItem(choice, WordingOf(part).part_added, {{"part", TextPart(part, "", false)}});
    }
  }
  void OnDelta(const Choice& choice, const PartDelta& delta) override {
    const Part& part = choice.parts.back();
    if (IsCustom(part)) return;  // its text is sent when the arguments are complete
    object json{{"delta", delta.text}};
    if (part.kind == PartKind::kContent) {
      json["logprobs"] = request().logprobs ? LogprobsJson(delta.tokens) : array{};
    }
    SendOfItem(choice, WordingOf(part).delta, std::move(json));
  }
  void OnPartEnd(const Choice& choice) override {
    const Part& part = choice.parts.back();
    const Wording words = WordingOf(part);
    if (IsCustom(part)) SendOfItem(choice, words.delta, {{"delta", WireText(part)}});
    if (words.done != nullptr) {
      object json{{words.done_field, WireText(part)}};
      if (part.kind == PartKind::kContent) json["logprobs"] = request().logprobs ? LogprobsJson(part.tokens) : array{};
      SendOfItem(choice, words.done, std::move(json));
    }
    if (part.kind != PartKind::kCall) SendOfItem(choice, words.part_done, {{"part", TextPart(part, part.text, true)}});
    SendItem(choice, "response.output_item.done", true);
  }
  void OnEnd(const Choice& choice) override {
    const bool cut = choice.end.finish == v1::FINISH_LENGTH;
    const char* type = cut ? "response.incomplete" : "response.completed";
    SendText(type, EventText(type, EndedResponse(choice)));
  }

  int64_t sequence_ = 0;
};

}  // namespace

std::unique_ptr<Renderer> NewResponsesRenderer(ReplyHead head, std::shared_ptr<const GatewayRequest> request) {
  return std::make_unique<ResponsesRenderer>(std::move(head), std::move(request));
}

}  // namespace ingot::gateway
