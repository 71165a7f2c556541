// Implements POST /v1/completions: text or token ids in, text out, without a chat template.
#include <utility>

#include "base/utf8.h"
#include "gateway/api/api_error.h"
#include "gateway/api/dialects/dialects.h"
#include "gateway/api/dialects/openai_fields.h"
#include "gateway/api/request_fields.h"

namespace ingot::gateway {
namespace {

using base::json::array;
using base::json::object;
using base::json::value;

constexpr size_t kMaxPrompts = 128;

// Reads `prompt`, which is a string, a list of ids, or a list of either.
absl::Status ReadPrompts(Fields& body, GatewayRequest& request) {
  const auto add = [&](const value& one) {
    GatewayRequest::RawPrompt prompt;
    if (one.is_string()) {
      prompt.text = std::string(one.get_string());
    } else if (!ReadIds(one, prompt.ids)) {
      return false;
    }
    request.raw_prompts.push_back(std::move(prompt));
    return true;
  };
  const value* prompts = body.Get("prompt");
  const bool listed = prompts != nullptr && prompts->is_array() && !prompts->get_array().empty() &&
                      !prompts->get_array()[0].is_number();
  bool good = prompts != nullptr;
  if (listed) {
    good = prompts->get_array().size() <= kMaxPrompts;
    for (const value& one : prompts->get_array()) good = good && add(one);
  } else if (good) {
    good = add(*prompts);
  }
  if (!good) {
    body.Wrong("prompt", absl::StrCat("a string, token ids, or a list of at most ", kMaxPrompts, " of either"));
  }
  return body.status();
}

class Completions final : public Dialect {
 public:
  std::string_view name() const override { return "completions"; }
  std::string_view path() const override { return "/completions"; }
  std::unique_ptr<Renderer> NewRenderer(ReplyHead head, std::shared_ptr<const GatewayRequest> request) const override {
    return NewCompletionsRenderer(std::move(head), std::move(request));
  }

  absl::StatusOr<GatewayRequest> Parse(const RawRequest& raw) const override {
    INGOT_ASSIGN_OR_RETURN(const value json, ParseBody(raw.body));
    GatewayRequest request;
    request.raw_output = true;
    request.prompt_field = "prompt";
    Fields body(json);
    ReadCommon(raw.headers, body, request);
    ReadChoices(body, request);
    ReadFormat(body, "response_format", false, request);
    std::optional<int64_t> top, best_of;
    body.Read("logprobs", 0, kMaxTopLogprobs, top);
    request.logprobs = top.has_value();
    request.top_logprobs = static_cast<int32_t>(top.value_or(0));
    body.Read("best_of", 1, 128, best_of);
    if (best_of.value_or(request.n) != request.n) body.Wrong("best_of", "equal to 'n', because answers are not ranked");
    body.Read("echo", request.echo_prompt);
    if (request.echo_prompt && request.logprobs) {
      body.Fail(BadRequest("echo", "'echo' with 'logprobs' is not supported: prompts are not scored"));
    }
    std::string suffix;
    body.Read("suffix", suffix);
    if (!suffix.empty()) body.Fail(BadRequest("suffix", "'suffix' is not supported: the model only continues text"));
    INGOT_RETURN_IF_ERROR(body.status());
    if (request.raw_prompts.empty()) INGOT_RETURN_IF_ERROR(ReadPrompts(body, request));
    INGOT_RETURN_IF_ERROR(CheckRequest(request));
    return request;
  }
};

// Counts the characters of text that arrives in pieces. A piece may end within a character.
class CharacterCount {
 public:
  // Returns the number of characters before the first one with bytes in `piece`.
  int64_t Push(std::string_view piece) {
    const bool breaks_off = text_.holds() && (piece.empty() || !base::IsContinuation(piece[0]));
    const int64_t before = count_ + (breaks_off ? 1 : 0);
    count_ += static_cast<int64_t>(base::CountCharacters(text_.Push(piece)));
    return before;
  }

 private:
  int64_t count_ = 0;
  base::Utf8Stream text_;
};

class CompletionsRenderer final : public Renderer {
 public:
  CompletionsRenderer(ReplyHead head, std::shared_ptr<const GatewayRequest> request)
      : Renderer(std::move(head), std::move(request)), offsets_(choices().size()) {}

  std::string Whole() override {
    object json = Head();
    array list;
    for (const Choice& choice : choices()) {
      object one = ChoiceJson(choice, choice.begin.prompt_text + choice.TextOf(PartKind::kContent), FinishText(choice));
      AddTokens(choice.Tokens(), choice.index, one);
      if (request().return_token_ids) one["prompt_token_ids"] = IdsJson(choice.begin.prompt_ids);
      list.emplace_back(std::move(one));
    }
    json["choices"] = std::move(list);
    json["usage"] = UsageJson(TotalUsage(), kChatUsage);
    return base::PrintJson(json);
  }
  std::string Trailer(const absl::Status& status) override { return DoneOrError(status); }

 private:
  static const char* FinishText(const Choice& choice) {
    return choice.end.finish == v1::FINISH_LENGTH ? "length" : "stop";
  }
  object Head() const {
    object json;
    json["id"] = "cmpl-" + head().id;
    json["object"] = "text_completion";
    json["created"] = head().created_unix_s;
    json["model"] = head().model;
    json["system_fingerprint"] = nullptr;
    return json;
  }
  static object ChoiceJson(const Choice& choice, const std::string& text, const char* finish) {
    object json;
    json["index"] = choice.index;
    json["text"] = text;
    json["logprobs"] = nullptr;
    json["finish_reason"] = finish == nullptr ? value(nullptr) : value(finish);
    return json;
  }
  // A token that is not valid text on its own is named by its bytes, as in the original API: "bytes:\xf0\x9f". Names
  // are keys. Otherwise, all such tokens would share the name U+FFFD.
  static std::string TokenName(const std::string& bytes) {
    if (base::IsValidUtf8(bytes)) return bytes;
    std::string name = "bytes:";
    for (const char byte : bytes) absl::StrAppend(&name, "\\x", absl::Hex(static_cast<uint8_t>(byte), absl::kZeroPad2));
    return name;
  }
  // Writes log-probs in the older format, as parallel lists. A token's offset is the number of characters in the answer
  // before the token's first character. If the reply has ids, the end of the turn also has a log-prob.
  void AddTokens(const std::vector<Token>& tokens, int index, object& choice) {
    if (request().return_token_ids) choice["token_ids"] = IdsJson(tokens);
    if (!request().logprobs) return;
    array texts, logprobs, tops, offsets;
    for (const Token& token : tokens) {
      if (!token.is_text && !request().return_token_ids) continue;
      texts.emplace_back(TokenName(token.bytes));
      logprobs.emplace_back(token.logprob);
      object top;
      for (const Token::Alternative& other : token.top) top[TokenName(other.bytes)] = other.logprob;
      tops.emplace_back(std::move(top));
      offsets.emplace_back(offsets_[index].Push(token.bytes));
    }
    choice["logprobs"] = object{{"tokens", std::move(texts)},
                                {"token_logprobs", std::move(logprobs)},
                                {"top_logprobs", std::move(tops)},
                                {"text_offset", std::move(offsets)}};
  }
  void SendChunk(object choice) {
    object chunk = Head();
    chunk["choices"] = array{std::move(choice)};
    if (request().include_usage) chunk["usage"] = nullptr;
    Send("", chunk);
  }
  void OnBegin(const Choice& choice) override {
    if (!request().return_token_ids && choice.begin.prompt_text.empty()) return;
    object json = ChoiceJson(choice, choice.begin.prompt_text, nullptr);
    if (request().return_token_ids) json["prompt_token_ids"] = IdsJson(choice.begin.prompt_ids);
    SendChunk(std::move(json));
  }
  void OnDelta(const Choice& choice, const PartDelta& delta) override {
    object json = ChoiceJson(choice, delta.text, nullptr);
    if (!delta.tokens.empty()) AddTokens(delta.tokens, choice.index, json);
    SendChunk(std::move(json));
  }
  void OnEnd(const Choice& choice) override {
    object json = ChoiceJson(choice, "", FinishText(choice));
    AddTokens(choice.end.tokens, choice.index, json);
    SendChunk(std::move(json));
  }
  void OnClose() override {
    if (!request().include_usage) return;
    object chunk = Head();
    chunk["choices"] = array{};
    chunk["usage"] = UsageJson(TotalUsage(), kChatUsage);
    Send("", chunk);
  }

  std::vector<CharacterCount> offsets_;  // by choice; counts the text whose tokens were sent
};

}  // namespace

std::unique_ptr<Renderer> NewCompletionsRenderer(ReplyHead head, std::shared_ptr<const GatewayRequest> request) {
  return std::make_unique<CompletionsRenderer>(std::move(head), std::move(request));
}

const Dialect& CompletionsDialect() {
  static const Completions dialect;
  return dialect;
}

}  // namespace ingot::gateway
