#include "app/models/reward_servers.h"

#include "app/models/http_post.h"
#include "base/json.h"
#include "base/printable.h"
#include "base/secret.h"

namespace ingot::app {
namespace {

using base::json::object;
using base::json::value;

absl::StatusOr<std::string> ContentOf(const std::string& answer, const std::string& url) {
  const auto parsed = base::ParseJson(answer);
  const value* choices = parsed.ok() ? base::Find(*parsed, "choices") : nullptr;
  if (choices != nullptr && choices->is_array() && !choices->get_array().empty()) {
    const value* message = base::Find(choices->get_array()[0], "message");
    const value* content = message == nullptr ? nullptr : base::Find(*message, "content");
    if (content != nullptr && content->is_string()) return std::string(content->get_string());
  }
  return absl::FailedPreconditionError(
      absl::StrCat(url, " answered without choices[0].message.content: ", base::Printable(answer, {.max_bytes = 200})));
}

// Returns whether the server rejected a field that newer models have renamed or removed. If so, changes `body`
// accordingly.
bool DropRejected(const absl::Status& rejection, object& body) {
  if (!absl::IsFailedPrecondition(rejection)) return false;
  const std::string why(rejection.message());
  if (const auto most = body.find("max_tokens"); most != body.end() && why.find("max_completion_tokens") != why.npos) {
    value tokens = most->value();
    body.erase("max_tokens");
    body["max_completion_tokens"] = std::move(tokens);
    return true;
  }
  return why.find("temperature") != why.npos && body.erase("temperature") > 0;
}

class HttpJudge final : public reward::JudgeModel {
 public:
  HttpJudge(std::string gateway_url, std::string gateway_key, std::function<bool()> cancelled)
      : gateway_url_(std::move(gateway_url)), gateway_key_(std::move(gateway_key)), cancelled_(std::move(cancelled)) {}

  absl::StatusOr<std::string> Ask(const reward::JudgeServer& server,
                                  const reward::JudgeQuestion& question) const override {
    const std::string base_url = server.url.empty() ? gateway_url_ : server.url;
    if (base_url.empty())
      return absl::FailedPreconditionError(
          "judge.url is empty, and this run has no gateway to use instead: set judge.url");
    std::string key = server.url.empty() ? gateway_key_ : "";
    if (!server.key_file.empty()) {
      INGOT_ASSIGN_OR_RETURN(key, base::ReadSecret(server.key_file));
    }
    INGOT_ASSIGN_OR_RETURN(value schema, base::ParseJson(question.schema_json));
    object json_schema{{"name", "verdict"}, {"strict", true}, {"schema", std::move(schema)}};
    object body{{"model", server.model},
                {"messages",
                 {object{{"role", "system"}, {"content", question.system}},
                  object{{"role", "user"}, {"content", question.user}}}},
                {"temperature", 0},
                {"max_tokens", server.max_tokens},
                {"response_format", object{{"type", "json_schema"}, {"json_schema", std::move(json_schema)}}}};
    const std::string url = ChatCompletionsUrl(base_url);
    absl::StatusOr<std::string> answer;
    do {
      answer = Post({.url = url,
                     .body = base::PrintJson(body),
                     .key = key,
                     .timeout_s = server.timeout_s,
                     .cancelled = cancelled_});
    } while (!answer.ok() && DropRejected(answer.status(), body));
    INGOT_RETURN_IF_ERROR(answer.status());
    return ContentOf(*answer, url);
  }

 private:
  const std::string gateway_url_, gateway_key_;
  const std::function<bool()> cancelled_;
};

class HttpScorer final : public reward::ExternalScorer {
 public:
  absl::StatusOr<std::string> Post(const std::string& url, const std::string& json, double timeout_s) const override {
    return app::Post({.url = url, .body = json, .key = "", .timeout_s = timeout_s});
  }
};

}  // namespace

reward::TermParts HttpTermParts(const std::string& gateway_url, const std::string& gateway_key,
                                std::function<bool()> cancelled) {
  return {.judge = std::make_shared<HttpJudge>(gateway_url, gateway_key, std::move(cancelled)),
          .external = std::make_shared<HttpScorer>()};
}

}  // namespace ingot::app
