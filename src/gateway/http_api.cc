#include "gateway/http_api.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/json.h"
#include "base/random.h"
#include "gateway/api/api_error.h"
#include "gateway/api/cut_text.h"
#include "gateway/api/request_fields.h"
#include "gateway/episode_request.h"

namespace ingot::gateway {
namespace {

using base::json::object;
using base::json::value;

HttpReply Json(int status, const value& body) {
  return {.status = status, .content_type = "application/json", .headers = {}, .body = base::PrintJson(body)};
}

std::string KeyOf(const HttpRequest& request) {
  constexpr std::string_view kScheme = "bearer ";
  const std::string& header = request.authorization;
  if (header.size() > kScheme.size() &&
      std::equal(kScheme.begin(), kScheme.end(), header.begin(), [](char a, char b) { return a == std::tolower(b); })) {
    const size_t begin = header.find_first_not_of(' ', kScheme.size());
    return begin == std::string::npos ? "" : header.substr(begin, header.find_last_not_of(' ') - begin + 1);
  }
  return request.api_key;
}

// An answer that is there, or will be in one piece.
class Ready final : public Exchange {
 public:
  Ready() : Exchange(NewRequestId()) {}
  explicit Ready(HttpReply reply) : Ready() { Set(std::move(reply)); }

  void Set(HttpReply reply) {
    base::MutexLock lock(mu_);
    reply_ = std::move(reply);
  }
  Progress Take() override {
    base::MutexLock lock(mu_);
    Progress progress;
    progress.done = reply_.has_value();
    progress.reply = std::exchange(reply_, std::nullopt);
    return progress;
  }
  void Abandon(absl::Status) override {}  // what was asked for is done all the same

 private:
  base::Mutex mu_;
  std::optional<HttpReply> reply_ ABSL_GUARDED_BY(mu_);
};

class AnswerExchange final : public Exchange {
 public:
  AnswerExchange(std::shared_ptr<Answer> answer, double retry_after_s)
      : Exchange(answer->id()), answer_(std::move(answer)), retry_after_s_(retry_after_s) {}

  Progress Take() override {
    Answer::Output out = answer_->Take();
    Progress progress;
    progress.done = out.done;
    base::MutexLock lock(mu_);
    if (out.done && !out.status.ok() && !begun_ && out.events.empty()) {
      progress.reply = ErrorReply(answer_->dialect(), out.status, retry_after_s_);
      return progress;
    }
    if (!out.stream) {
      if (!out.events.empty()) {
        progress.reply = HttpReply{
            .status = 200, .content_type = "application/json", .headers = {}, .body = std::move(out.events[0].data)};
      }
      return progress;
    }
    for (const WireEvent& event : out.events) event.AppendSse(progress.data);
    progress.data += out.trailer;
    progress.stream_begins = !begun_ && !progress.data.empty();
    begun_ = begun_ || progress.stream_begins;
    return progress;
  }
  void Abandon(absl::Status why) override { answer_->Abort(std::move(why)); }

 private:
  const std::shared_ptr<Answer> answer_;
  const double retry_after_s_;
  base::Mutex mu_;
  bool begun_ ABSL_GUARDED_BY(mu_) = false;
};

absl::StatusOr<value> ObjectBody(const HttpRequest& request) {
  if (request.body.find_first_not_of(" \t\r\n") == std::string::npos) return value(object{});
  return ParseBody(request.body);
}

// A body that would have to be unpacked first; no client packs one unless it is told to.
bool IsEncoded(const Headers& headers) {
  const std::string_view encoding = headers.Get("content-encoding");
  return !encoding.empty() && encoding != "identity";
}

// What both OpenAI's and Anthropic's clients look for.
object ModelJson(const std::string& name, const ModelOptions* model) {
  object json{{"id", name},
              {"object", "model"},
              {"created", 0},
              {"owned_by", "ingot"},
              {"type", "model"},
              {"display_name", name},
              {"created_at", "1970-01-01T00:00:00Z"}};
  constexpr const char* kWeights[] = {"follow", "pinned", "external"};
  json["weights"] = kWeights[model == nullptr ? 0 : static_cast<int>(model->weights)];
  if (model != nullptr && model->weights == ModelWeights::kPinned) json["version"] = model->version;
  return json;
}

const char* PurposeText(v1::EpisodePurpose purpose) {
  if (purpose == v1::PURPOSE_EVAL) return "eval";
  return purpose == v1::PURPOSE_SERVE ? "serve" : "train";
}

// The payload is the task's own text.
std::string TaskJson(const v1::Task& task) {
  std::string json = base::PrintJson(object{{"task_id", task.task_id()}, {"domain", task.domain()}});
  json.pop_back();
  const bool payload = base::ParseJson(task.payload_json()).ok();
  return absl::StrCat(json, ",\"payload\":", payload ? task.payload_json() : "null", "}");
}

}  // namespace

HttpReply ErrorReply(const Dialect& dialect, const absl::Status& status, double retry_after_s) {
  Dialect::Error error = dialect.ErrorOf(status);
  HttpReply reply;
  reply.status = error.http;
  reply.body = std::move(error.body);
  if (ShouldRetryLater(status)) {
    reply.headers.emplace_back("Retry-After", std::to_string(static_cast<int64_t>(std::ceil(retry_after_s))));
  }
  if (!MayRetry(status)) reply.headers.emplace_back("x-should-retry", "false");
  return reply;
}

HttpReply ErrorReply(std::string_view target, const Headers& headers, const absl::Status& status,
                     double retry_after_s) {
  return ErrorReply(*HttpRoute::Of(target, headers).dialect, status, retry_after_s);
}

HttpReply HttpApi::Error(const absl::Status& status) const {
  return ErrorReply(ChatDialect(), status, gateway_.options().retry_after_s);
}

std::string NewRequestId() { return base::RandomHex(16); }

std::shared_ptr<Exchange> HttpApi::Start(HttpRequest request, std::function<void()> wake) {
  const HttpRoute route = HttpRoute::Of(request.target, request.headers);
  if (IsEncoded(request.headers)) {
    HttpReply reply = ErrorReply(
        *route.dialect, ApiError(415, "unsupported_encoding", "", "the body has a Content-Encoding: send it as it is"),
        gateway_.options().retry_after_s);
    reply.headers.emplace_back("Accept-Encoding", "identity");
    auto answer = std::make_shared<Ready>(std::move(reply));
    wake();
    return answer;
  }
  const bool head = request.method == "HEAD" && std::string_view(route.method) == "GET";
  if (route.kind == HttpRoute::Kind::kDialect && request.method == route.method) {
    RawRequest raw{.body = std::move(request.body), .headers = std::move(request.headers)};
    return std::make_shared<AnswerExchange>(gateway_.StartAnswer({.api_key = KeyOf(request), .episode = route.episode},
                                                                 *route.dialect, std::move(raw), std::move(wake)),
                                            gateway_.options().retry_after_s);
  }
  if (request.method == route.method || head) {
    if (auto exchange = StartBlocking(request, route, wake)) return exchange;
  }
  auto answer = std::make_shared<Ready>(Quick(request, route));
  wake();
  return answer;
}

// nullptr: the route's answer does not block.
std::shared_ptr<Exchange> HttpApi::StartBlocking(HttpRequest request, const HttpRoute& route,
                                                 const std::function<void()>& wake) {
  std::function<HttpReply(const HttpRequest&)> answer;
  switch (route.kind) {
    case HttpRoute::Kind::kOpen:
      answer = [this](const HttpRequest& r) { return Open(r); };
      break;
    case HttpRoute::Kind::kReward:
      answer = [this, id = route.episode](const HttpRequest& r) { return Reward(r, id); };
      break;
    case HttpRoute::Kind::kEnd:
      answer = [this, id = route.episode](const HttpRequest& r) { return End(r, id); };
      break;
    case HttpRoute::Kind::kMetrics:
      answer = [this](const HttpRequest&) {
        return HttpReply{.status = 200,
                         .content_type = "text/plain; version=0.0.4; charset=utf-8",
                         .headers = {},
                         .body = metrics_ ? metrics_() : gateway_.MetricsText()};
      };
      break;
    default:
      return nullptr;
  }
  return Blocking(std::move(request), wake, std::move(answer));
}

HttpReply HttpApi::Quick(const HttpRequest& request, const HttpRoute& route) {
  const auto error = [&](int http, const char* code, const std::string& message) {
    return ErrorReply(*route.dialect, ApiError(http, code, "", message), gateway_.options().retry_after_s);
  };
  const bool root = route.kind == HttpRoute::Kind::kRoot && request.method != route.method;
  if (route.kind == HttpRoute::Kind::kNone || root) {
    std::string known;
    for (const Dialect* dialect : Dialects()) absl::StrAppend(&known, " /v1", base::View(dialect->path()));
    return error(404, "not_found",
                 absl::StrCat("there is nothing at ", Printable(request.target, 200), "; try", known));
  }
  if (request.method != route.method && !(request.method == "HEAD" && std::string_view(route.method) == "GET")) {
    HttpReply reply = error(405, "method_not_allowed",
                            absl::StrCat("this path takes ", route.method, ", not ", Printable(request.method, 20)));
    reply.headers.emplace_back("Allow", route.method);
    return reply;
  }
  switch (route.kind) {
    case HttpRoute::Kind::kRoot:
      return Json(200, object{});
    case HttpRoute::Kind::kModels: {
      const GatewayOptions& options = gateway_.options();
      base::json::array models = {ModelJson(options.model_name, nullptr)};
      for (const ModelOptions& model : options.models) models.push_back(ModelJson(model.name, &model));
      const value first = models.front().at("id"), last = models.back().at("id");
      return Json(200, object{{"object", "list"},
                              {"data", std::move(models)},
                              {"has_more", false},
                              {"first_id", first},
                              {"last_id", last}});
    }
    case HttpRoute::Kind::kModel:
      return ModelReply(route);
    case HttpRoute::Kind::kHealth:
      if (gateway_.shutting_down()) return Error(absl::UnavailableError("the gateway is shutting down"));
      return Json(200, object{{"status", "ok"}});
    default:
      return StatusReply();
  }
}

HttpReply HttpApi::ModelReply(const HttpRoute& route) const {
  if (route.name == gateway_.options().model_name) return Json(200, ModelJson(route.name, nullptr));
  for (const ModelOptions& model : gateway_.options().models) {
    if (model.name == route.name) return Json(200, ModelJson(model.name, &model));
  }
  return ErrorReply(*route.dialect,
                    ApiError(404, "model_not_found", "model",
                             absl::StrCat("the model served here is '", gateway_.options().model_name, "'")),
                    gateway_.options().retry_after_s);
}

HttpReply HttpApi::StatusReply() const {
  const v1::GatewayStatusResponse status = gateway_.Status();
  object forks;
  for (const auto& [cause, count] : status.forks()) forks[cause] = count;
  object json;
  json["open_episodes"] = status.open_episodes();
  json["calls"] = status.calls();
  json["active_calls"] = status.active_calls();
  json["spliced_calls"] = status.spliced_calls();
  json["forks"] = std::move(forks);
  return Json(200, json);
}

std::shared_ptr<Exchange> HttpApi::Blocking(HttpRequest request, const std::function<void()>& wake,
                                            std::function<HttpReply(const HttpRequest&)> answer) {
  auto exchange = std::make_shared<Ready>();
  auto job = [exchange, wake, answer = std::move(answer), request = std::move(request)] {
    exchange->Set(answer(request));
    wake();
  };
  if (!gateway_.RunOnWorker(std::move(job))) {
    exchange->Set(Error(ApiError(503, "overloaded", "", "too many requests wait for a worker: try again later")));
    wake();
  }
  return exchange;
}

HttpReply HttpApi::Open(const HttpRequest& request) {
  auto body = ObjectBody(request);
  if (!body.ok()) return Error(body.status());
  v1::EpisodeOpenRequest open;
  const std::string text = base::WithoutLoneSurrogates(request.body).value_or(request.body);  // as ParseBody read it
  if (absl::Status read = ReadOpen(*body, base::JsonText(text), open); !read.ok()) return Error(read);
  open.set_admin_key(KeyOf(request));
  open.set_idempotency_key(std::string(request.headers.Get("idempotency-key")));
  auto opened = gateway_.OpenEpisode(open);
  if (!opened.ok()) return Error(opened.status());
  object json;
  json["episode_id"] = opened->episode_id();
  json["api_key"] = opened->api_key();
  if (!opened->owner_key().empty()) json["owner_key"] = opened->owner_key();
  json["base_url"] = opened->base_url();
  json["purpose"] = PurposeText(opened->purpose());
  json["group_id"] = opened->ref().group_id();
  json["sample_index"] = opened->ref().sample_index();
  json["attempt"] = opened->ref().attempt();
  HttpReply reply = Json(201, json);
  reply.body.pop_back();
  absl::StrAppend(&reply.body, ",\"task\":", TaskJson(opened->task()), "}");
  return reply;
}

HttpReply HttpApi::Reward(const HttpRequest& request, const std::string& episode) {
  auto body = ObjectBody(request);
  if (!body.ok()) return Error(body.status());
  v1::EpisodeRewardRequest reward;
  reward.set_episode_id(episode);
  reward.set_api_key(KeyOf(request));
  absl::Status status = ReadReward(*body, reward);
  if (status.ok()) status = gateway_.RewardEpisode(reward);
  return status.ok() ? Json(200, object{}) : Error(status);
}

HttpReply HttpApi::End(const HttpRequest& request, const std::string& episode) {
  auto body = ObjectBody(request);
  if (!body.ok()) return Error(body.status());
  v1::EpisodeEndRequest end;
  end.set_episode_id(episode);
  end.set_api_key(KeyOf(request));
  absl::Status status = ReadEnd(*body, end);
  if (status.ok()) status = gateway_.EndEpisode(end);
  return status.ok() ? Json(200, object{}) : Error(status);
}

}  // namespace ingot::gateway
