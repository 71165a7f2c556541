// Renders the replies to Google's generateContent and streamGenerateContent, and errors and models in Google's format.
#include <utility>

#include "absl/strings/escaping.h"
#include "base/printable.h"
#include "base/utf8.h"
#include "gateway/api/api_error.h"
#include "gateway/api/dialects/dialects.h"
#include "text/output/readable_object.h"

namespace ingot::gateway {
namespace {

using base::json::array;
using base::json::object;

// Returns the canonical code name for an HTTP status, as in google.rpc.Code.
const char* StatusName(int http) {
  switch (http) {
    case 401:
      return "UNAUTHENTICATED";
    case 403:
      return "PERMISSION_DENIED";
    case 404:
      return "NOT_FOUND";
    case 409:
      return "ABORTED";
    case 410:
      return "FAILED_PRECONDITION";
    case 429:
      return "RESOURCE_EXHAUSTED";
    case 405:
    case 501:
      return "UNIMPLEMENTED";
    case 503:
      return "UNAVAILABLE";
    case 504:
      return "DEADLINE_EXCEEDED";
    default:
      return http >= 500 ? "INTERNAL" : "INVALID_ARGUMENT";
  }
}

// Libraries expect a call's arguments in one piece, so each call is one event. The last character of text is held back
// until more text, another part, or the end arrives, so the event with the finish reason always has a nonempty part.
// Otherwise, clients keep an empty part in their history or drop the whole answer. A stream that ends early sends the
// held text before the error.
class GoogleRenderer final : public Renderer {
 public:
  GoogleRenderer(ReplyHead head, std::shared_ptr<const GatewayRequest> request)
      : Renderer(std::move(head), std::move(request)), held_(choices().size()) {}

  std::string Whole() override {
    std::string candidates;
    for (const Choice& choice : choices()) {
      std::string parts;
      for (const Part& part : choice.parts) {
        if (part.kind == PartKind::kCall) {
          AddTo(parts, CallText(part));
        } else if (Emits(part) && !part.text.empty()) {
          AddTo(parts, PartText(part.kind, part.text));
        }
      }
      AddTo(candidates, Candidate(choice, parts, choice.Tokens(), true));
    }
    return Response(candidates, true, request().return_token_ids ? &choices()[0] : nullptr);
  }

  Framing framing() const override {
    // python-genai cannot handle a comment. All parsers skip an empty line.
    if (!request().streams_array) return {.filler = "\n"};
    return {.content_type = "application/json; charset=utf-8", .filler = "\n", .is_array = true};
  }

  std::string Trailer(const absl::Status& status) override {
    const bool is_array = request().streams_array;
    if (status.ok()) return is_array ? "]" : "";
    const std::string error = GoogleError(status).body;
    std::string rest;
    const auto add = [&](const std::string& json) {
      is_array ? absl::StrAppend(&rest, ",\n", json) : WireEvent{"", json, {}}.AppendSse(rest);
    };
    for (const Choice& choice : choices()) {
      HeldEvent& held = held_[choice.index];
      const std::string part = choice.parts.empty() ? "" : HeldPart(held, choice.parts.back().kind);
      if (!part.empty()) add(Response(Candidate(choice, part, held.tokens, false), false, nullptr));
      held = {};
    }
    add(error);
    // js-genai recognizes an error only as a line with nothing but JSON. Other libraries recognize it only as an event.
    return rest + (is_array ? "]" : error);
  }

 private:
  // The content of the next event.
  struct HeldEvent {
    std::string text;           // text of the last part, unless it is a call
    std::string call;           // JSON of the last part, if it is a completed call
    std::vector<Token> tokens;  // tokens that have not been sent in an event yet
  };

  static void AddTo(std::string& list, std::string_view json) {
    if (!list.empty()) list += ',';
    list += json;
  }

  bool Emits(const Part& part) const { return request().emits_reasoning || part.kind != PartKind::kReasoning; }
  static std::string PartText(PartKind kind, const std::string& text) {
    object json{{"text", text}};
    if (kind == PartKind::kReasoning) json["thought"] = true;
    return base::PrintJson(json);
  }
  // The signature repeats the call id for clients that drop the id. As in the vendor's answers, thoughts have no
  // signature because Inspect treats a thought with a signature as text.
  static std::string CallText(const Part& part) {
    return WithMember({{"thoughtSignature", absl::Base64Escape(part.id)}}, "functionCall",
                      WithMember({{"id", part.id}, {"name", part.name}}, "args", text::ReadableObjectText(part.text)));
  }

  static object UsageJson(const Usage& usage) {
    object json{{"promptTokenCount", usage.prompt_tokens},
                {"candidatesTokenCount", usage.completion_tokens - usage.reasoning_tokens},
                {"totalTokenCount", usage.prompt_tokens + usage.completion_tokens},
                {"promptTokensDetails", array{object{{"modality", "TEXT"}, {"tokenCount", usage.prompt_tokens}}}}};
    if (usage.cached_tokens > 0) json["cachedContentTokenCount"] = usage.cached_tokens;
    if (usage.reasoning_tokens > 0) json["thoughtsTokenCount"] = usage.reasoning_tokens;
    return json;
  }

  object LogprobsResult(const std::vector<Token>& tokens) const {
    const auto entry = [](int32_t id, float logprob, const std::string& bytes) {
      return object{{"token", TokenText(bytes)}, {"tokenId", id}, {"logProbability", logprob}};
    };
    array chosen, top;
    for (const Token& token : tokens) {
      if (!request().return_token_ids && (!token.is_text || !token.is_content)) continue;
      chosen.push_back(entry(token.id, token.logprob, token.bytes));
      array candidates;
      for (const Token::Alternative& other : token.top) {
        candidates.push_back(entry(other.id, other.logprob, other.bytes));
      }
      if (!candidates.empty()) top.push_back(object{{"candidates", std::move(candidates)}});
    }
    object json{{"chosenCandidates", std::move(chosen)}};
    if (!top.empty()) json["topCandidates"] = std::move(top);
    return json;
  }

  // `parts` is the JSON of the parts, separated by commas.
  std::string Candidate(const Choice& choice, const std::string& parts, const std::vector<Token>& tokens,
                        bool last) const {
    object json{{"index", choice.index}};
    if (last) json["finishReason"] = choice.end.finish == v1::FINISH_LENGTH ? "MAX_TOKENS" : "STOP";
    if (request().logprobs) json["logprobsResult"] = LogprobsResult(tokens);
    if (request().return_token_ids) json["token_ids"] = IdsJson(tokens);
    const char* const empty = R"({"text":""})";
    return absl::StrCat(R"({"content":{"parts":[)", parts.empty() ? empty : parts, R"(],"role":"model"},)",
                        base::View(std::string_view(base::PrintJson(json)).substr(1)));
  }
  // `candidates` has the same format as `parts` above. `prompt` is the choice whose prompt ids are sent; null = none.
  std::string Response(const std::string& candidates, bool last, const Choice* prompt) const {
    object json;
    if (last) json["usageMetadata"] = UsageJson(TotalUsage());
    json["modelVersion"] = head().model;
    json["responseId"] = head().id;
    if (prompt != nullptr) json["prompt_token_ids"] = IdsJson(prompt->begin.prompt_ids);
    return absl::StrCat(R"({"candidates":[)", candidates, "],",
                        base::View(std::string_view(base::PrintJson(json)).substr(1)));
  }

  // Returns the JSON of the held part, which has this kind, or "" if nothing is held.
  static std::string HeldPart(const HeldEvent& held, PartKind kind) {
    return held.text.empty() ? held.call : PartText(kind, held.text);
  }
  void SendPart(const Choice& choice, const std::string& part) {
    std::vector<Token> tokens = std::exchange(held_[choice.index].tokens, {});
    SendText("", Response(Candidate(choice, part, tokens, false), false, nullptr));
  }

  void OnBegin(const Choice& choice) override {
    if (request().return_token_ids) SendText("", Response("", false, &choice));
  }
  void OnPartBegin(const Choice& choice) override {
    HeldEvent& held = held_[choice.index];
    if (choice.parts.size() < 2) return;
    const std::string part = HeldPart(held, choice.parts[choice.parts.size() - 2].kind);
    held.text.clear();
    held.call.clear();
    if (!part.empty()) SendPart(choice, part);
  }
  void OnDelta(const Choice& choice, const PartDelta& delta) override {
    const Part& part = choice.parts.back();
    HeldEvent& held = held_[choice.index];
    held.tokens.insert(held.tokens.end(), delta.tokens.begin(), delta.tokens.end());
    if (part.kind == PartKind::kCall || !Emits(part)) return;
    held.text += delta.text;
    const size_t last = base::StartOf(held.text, held.text.size() - 1);
    if (last == 0) return;
    const std::string text = std::exchange(held.text, held.text.substr(last)).substr(0, last);
    SendPart(choice, PartText(part.kind, text));
  }
  void OnPartEnd(const Choice& choice) override {
    const Part& part = choice.parts.back();
    if (part.kind == PartKind::kCall) held_[choice.index].call = CallText(part);
  }
  void OnEnd(const Choice& choice) override {
    HeldEvent& held = held_[choice.index];
    held.tokens.insert(held.tokens.end(), choice.end.tokens.begin(), choice.end.tokens.end());
    const std::string part = choice.parts.empty() ? "" : HeldPart(held, choice.parts.back().kind);
    SendText("", Response(Candidate(choice, part, held.tokens, true), true, nullptr));
    held = {};
  }

  std::vector<HeldEvent> held_;  // by choice
};

object ModelObject(const ServedModel& model) {
  object json{{"name", "models/" + model.name},
              {"version", model.version >= 0 ? std::to_string(model.version) : std::string(model.weights)},
              {"displayName", model.name},
              {"outputTokenLimit", model.max_answer_tokens},
              {"supportedGenerationMethods", array{"generateContent", "countTokens"}}};
  if (model.context_tokens > 0) json["inputTokenLimit"] = model.context_tokens;
  return json;
}

}  // namespace

Dialect::Error GoogleError(const absl::Status& status) {
  const int http = HttpStatusOf(status);
  std::string message = base::CutMessage({status.message().data(), status.message().size()});
  const std::string code = ErrorCodeOf(status), param = ErrorParamOf(status);
  // Clients look for this wording to detect that they must compact their history.
  if (code == kContextLengthExceeded) {
    message = "The input token count exceeds the maximum number of tokens allowed: " + message;
  }
  array details;
  if (!code.empty()) {
    details.push_back(
        object{{"@type", "type.googleapis.com/google.rpc.ErrorInfo"}, {"reason", code}, {"domain", "ingot"}});
  }
  if (!param.empty()) {
    details.push_back(object{{"@type", "type.googleapis.com/google.rpc.BadRequest"},
                             {"fieldViolations", array{object{{"field", param}, {"description", message}}}}});
  }
  object error{{"code", http}, {"message", std::move(message)}, {"status", StatusName(http)}};
  if (!details.empty()) error["details"] = std::move(details);
  return {http, base::PrintJson(object{{"error", std::move(error)}})};
}

std::string GoogleModelJson(const ServedModel& model) { return base::PrintJson(ModelObject(model)); }

std::string GoogleModelsJson(std::span<const ServedModel> models) {
  array list;
  for (const ServedModel& model : models) list.push_back(ModelObject(model));
  return base::PrintJson(object{{"models", std::move(list)}});
}

std::unique_ptr<Renderer> NewGoogleRenderer(ReplyHead head, std::shared_ptr<const GatewayRequest> request) {
  return std::make_unique<GoogleRenderer>(std::move(head), std::move(request));
}

}  // namespace ingot::gateway
