#include "gateway/api/dialects/dialects.h"

#include "absl/time/time.h"
#include "gateway/api/api_error.h"
#include "text/tokenizer/tokenizer.h"

namespace ingot::gateway {

using base::json::array;
using base::json::object;

namespace {

object OpenAiModel(const ServedModel& model) {
  const absl::Time created = absl::FromUnixSeconds(model.created_unix_s);
  object json{{"id", model.name},
              {"object", "model"},
              {"created", model.created_unix_s},
              {"owned_by", "ingot"},
              {"type", "model"},
              {"display_name", model.name},
              {"created_at", absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", created, absl::UTCTimeZone())},
              {"weights", model.weights}};
  if (model.version >= 0) json["version"] = model.version;
  return json;
}

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

std::string Dialect::ModelJson(const ServedModel& model) const { return base::PrintJson(OpenAiModel(model)); }

std::string Dialect::ModelsJson(std::span<const ServedModel> models) const {
  array list;
  for (const ServedModel& model : models) list.push_back(OpenAiModel(model));
  return base::PrintJson(object{{"object", "list"},
                                {"data", std::move(list)},
                                {"has_more", false},
                                {"first_id", models.front().name},
                                {"last_id", models.back().name}});
}

std::span<const Dialect* const> Dialects() {
  static const Dialect* const all[] = {&ChatDialect(),
                                       &CompletionsDialect(),
                                       &ResponsesDialect(),
                                       &InputTokensDialect(),
                                       &MessagesDialect(),
                                       &CountTokensDialect(),
                                       &GenerateContentDialect(),
                                       &StreamGenerateContentDialect(),
                                       &GoogleCountTokensDialect()};
  return all;
}

const Dialect* FindDialect(std::string_view name) {
  for (const Dialect* dialect : Dialects()) {
    if (dialect->name() == name) return dialect;
  }
  return nullptr;
}

const Dialect* DialectAt(std::string_view path, std::string& model) {
  constexpr std::string_view kModel = "{model}";
  for (const Dialect* dialect : Dialects()) {
    const std::string_view pattern = dialect->path();
    if (pattern == path) return dialect;
    const size_t at = pattern.find(kModel);
    if (at == std::string_view::npos) continue;
    const std::string_view before = pattern.substr(0, at), after = pattern.substr(at + kModel.size());
    if (path.size() <= before.size() + after.size() || !path.starts_with(before) || !path.ends_with(after)) continue;
    model = path.substr(at, path.size() - before.size() - after.size());
    return dialect;
  }
  return nullptr;
}

const Dialect& DefaultDialect(const Headers& headers) {
  if (!headers.Get("anthropic-version").empty()) return MessagesDialect();
  for (const char* name : {"x-goog-api-key", "x-goog-api-client"}) {
    if (!headers.Get(name).empty()) return GenerateContentDialect();
  }
  return ChatDialect();
}

std::string WithMember(const object& json, std::string_view name, std::string_view text) {
  std::string whole = base::PrintJson(json);
  whole.back() = ',';
  base::AppendJsonString(name, whole);
  return whole.append(":").append(text).append("}");
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
