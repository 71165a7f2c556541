#include "gateway/api/dialects/dialects.h"

#include "gateway/api/api_error.h"
#include "text/tokenizer.h"

namespace ingot::gateway {

using base::json::array;
using base::json::object;

namespace {

class CountRenderer final : public Renderer {
 public:
  CountRenderer(std::shared_ptr<const GatewayRequest> request, const char* field, object more)
      : Renderer({}, std::move(request)), field_(field), reply_(std::move(more)) {}
  std::string Whole() override {
    reply_[field_] = choices()[0].begin.prompt_tokens;
    return base::PrintJson(reply_);
  }
  std::string Trailer(const absl::Status&) override { return ""; }

 private:
  const char* const field_;
  object reply_;
};

}  // namespace

std::unique_ptr<Renderer> NewCountRenderer(std::shared_ptr<const GatewayRequest> request, const char* field,
                                           object more) {
  return std::make_unique<CountRenderer>(std::move(request), field, std::move(more));
}

Dialect::Error Dialect::ErrorOf(const absl::Status& status) const { return {HttpStatusOf(status), ErrorJson(status)}; }

std::span<const Dialect* const> Dialects() {
  static const Dialect* const all[] = {&ChatDialect(),     &CompletionsDialect(), &ResponsesDialect(),
                                       &MessagesDialect(), &CountTokensDialect(), &InputTokensDialect()};
  return all;
}

const Dialect* FindDialect(std::string_view name) {
  for (const Dialect* dialect : Dialects()) {
    if (dialect->name() == name) return dialect;
  }
  return nullptr;
}

const Dialect* DialectAt(std::string_view path) {
  for (const Dialect* dialect : Dialects()) {
    if (dialect->path() == path) return dialect;
  }
  return nullptr;
}

const Dialect& DefaultDialect(const Headers& headers) {
  return headers.Get("anthropic-version").empty() ? ChatDialect() : MessagesDialect();
}

std::string DoneOrError(const absl::Status& status) {
  return WireEvent{"", status.ok() ? "[DONE]" : ErrorJson(status), {}}.Sse();
}

object UsageJson(const Usage& usage, const UsageNames& names) {
  object json;
  json[names.input] = usage.prompt_tokens;
  json[names.output] = usage.completion_tokens;
  json["total_tokens"] = usage.prompt_tokens + usage.completion_tokens;
  json[names.input_details] = object{{"cached_tokens", usage.cached_tokens}};
  json[names.output_details] = object{{"reasoning_tokens", usage.reasoning_tokens}};
  return json;
}

std::string TokenText(const std::string& bytes) { return text::ToUtf8(bytes); }

array LogprobsJson(const std::vector<Token>& tokens, bool all) {
  const auto entry = [](float logprob, const std::string& bytes) {
    array numbers;
    for (const char byte : bytes) numbers.emplace_back(static_cast<unsigned char>(byte));
    return object{{"token", TokenText(bytes)}, {"logprob", logprob}, {"bytes", std::move(numbers)}};
  };
  array content;
  for (const Token& token : tokens) {
    if (!all && (!token.is_text || !token.is_content)) continue;
    object json = entry(token.logprob, token.bytes);
    array top;
    for (const Token::Alternative& other : token.top) top.emplace_back(entry(other.logprob, other.bytes));
    json["top_logprobs"] = std::move(top);
    content.emplace_back(std::move(json));
  }
  return content;
}

object LogprobsBeside(const GatewayRequest& request, const std::vector<Token>& tokens) {
  return {{"content", LogprobsJson(tokens, request.return_token_ids)}};
}

array IdsJson(const std::vector<Token>& tokens) {
  array ids;
  for (const Token& token : tokens) ids.emplace_back(token.id);
  return ids;
}

array IdsJson(const std::vector<int32_t>& ids) { return array(ids.begin(), ids.end()); }

}  // namespace ingot::gateway
