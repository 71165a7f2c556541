#include "gateway/http_api.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/json.h"
#include "gateway/api_error.h"
#include "gateway/cut_text.h"

namespace ingot::gateway {
namespace {

using base::json::object;
using base::json::value;

constexpr size_t kMaxEpisodeId = 64;

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
class Answer final : public Exchange {
 public:
  Answer() = default;
  explicit Answer(HttpReply reply) : reply_(std::move(reply)) {}

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

std::string Event(const std::string& data) { return "data: " + data + "\n\n"; }

class ChatExchange final : public Exchange {
 public:
  ChatExchange(std::shared_ptr<ChatCall> call, double retry_after_s)
      : call_(std::move(call)), retry_after_s_(retry_after_s) {}

  Progress Take() override {
    ChatCall::Output out = call_->Take();
    Progress progress;
    progress.done = out.done;
    base::MutexLock lock(mu_);
    if (out.done && !out.status.ok() && !begun_ && out.events.empty()) {
      progress.reply = ErrorReply(out.status, retry_after_s_);
      return progress;
    }
    if (!out.stream) {
      if (out.done)
        progress.reply = HttpReply{
            .status = 200, .content_type = "application/json", .headers = {}, .body = std::move(out.events.at(0))};
      return progress;
    }
    for (const std::string& event : out.events) progress.data += Event(event);
    // A stream that breaks off says so, and has no [DONE].
    if (out.done) progress.data += Event(out.status.ok() ? "[DONE]" : ErrorJson(out.status));
    progress.stream_begins = !begun_ && !progress.data.empty();
    begun_ = begun_ || progress.stream_begins;
    return progress;
  }
  void Abandon(absl::Status why) override { call_->Abort(std::move(why)); }

 private:
  const std::shared_ptr<ChatCall> call_;
  const double retry_after_s_;
  base::Mutex mu_;
  bool begun_ ABSL_GUARDED_BY(mu_) = false;
};

absl::StatusOr<value> ObjectBody(const HttpRequest& request) {
  if (request.body.find_first_not_of(" \t\r\n") == std::string::npos) return value(object{});
  auto body = base::ParseJson(request.body);
  if (!body.ok()) return BadRequest("", absl::StrCat("the request's body is not JSON: ", body.status().message()));
  if (!body->is_object()) return BadRequest("", "the request's body must be a JSON object");
  return body;
}

absl::StatusOr<std::string> StringField(const value& body, const char* name) {
  const value* field = base::Find(body, name);
  if (field == nullptr || field->is_null()) return std::string();
  if (!field->is_string()) return BadRequest(name, absl::StrCat("'", name, "' must be a string"));
  return std::string(field->get_string());
}

const char* PurposeText(v1::EpisodePurpose purpose) {
  if (purpose == v1::PURPOSE_EVAL) return "eval";
  return purpose == v1::PURPOSE_SERVE ? "serve" : "train";
}

object TaskJson(const v1::Task& task) {
  object json;
  json["task_id"] = task.task_id();
  json["domain"] = task.domain();
  auto payload = base::ParseJson(task.payload_json());
  json["payload"] = payload.ok() ? *std::move(payload) : value(nullptr);
  return json;
}

}  // namespace

HttpReply ErrorReply(const absl::Status& status, double retry_after_s) {
  HttpReply reply;
  reply.status = HttpStatusOf(status);
  reply.body = ErrorJson(status);
  if (ShouldRetryLater(status)) {
    reply.headers.emplace_back("Retry-After", std::to_string(static_cast<int64_t>(std::ceil(retry_after_s))));
  }
  return reply;
}

// A target taken apart.
struct HttpApi::Route {
  enum class Kind { kNone, kChat, kModels, kModel, kOpen, kReward, kEnd, kStatus, kHealth, kMetrics };
  Kind kind = Kind::kNone;
  const char* method = "GET";
  std::string episode;  // of /s/{episode} or /ingot/v1/episodes/{id}
  std::string name;     // of /v1/models/{name}

  static Route Of(const std::string& target) {
    std::string_view path = target;
    path = path.substr(0, path.find_first_of("?#"));
    while (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
    Route route;
    if (path.starts_with("/s/")) {
      path.remove_prefix(3);
      const size_t end = path.find('/');
      route.episode = std::string(path.substr(0, end));
      if (end == std::string_view::npos || route.episode.empty() || route.episode.size() > kMaxEpisodeId) return route;
      path.remove_prefix(end);
      if (!path.starts_with("/v1/")) return route;
    }
    route.Match(path);
    return route;
  }

 private:
  void Set(Kind what, const char* how) {
    kind = what;
    method = how;
  }
  void Match(std::string_view path) {
    constexpr std::string_view kModelPrefix = "/v1/models/", kEpisodes = "/ingot/v1/episodes";
    if (path == "/v1/chat/completions") return Set(Kind::kChat, "POST");
    if (path == "/v1/models") return Set(Kind::kModels, "GET");
    if (path.starts_with(kModelPrefix)) {
      name = std::string(path.substr(kModelPrefix.size()));
      return Set(Kind::kModel, "GET");
    }
    if (path == "/healthz") return Set(Kind::kHealth, "GET");
    if (path == "/metrics") return Set(Kind::kMetrics, "GET");
    if (path == "/ingot/v1/status") return Set(Kind::kStatus, "GET");
    if (path == kEpisodes) return Set(Kind::kOpen, "POST");
    if (!path.starts_with(kEpisodes) || path[kEpisodes.size()] != '/') return;
    path.remove_prefix(kEpisodes.size() + 1);
    const size_t slash = path.find('/');
    if (slash == std::string_view::npos || slash == 0 || slash > kMaxEpisodeId) return;
    episode = std::string(path.substr(0, slash));
    if (path.substr(slash) == "/reward") return Set(Kind::kReward, "POST");
    if (path.substr(slash) == "/end") return Set(Kind::kEnd, "POST");
  }
};

HttpReply HttpApi::Error(const absl::Status& status) const {
  return ErrorReply(status, gateway_.options().retry_after_s);
}

std::shared_ptr<Exchange> HttpApi::Start(HttpRequest request, std::function<void()> wake) {
  const Route route = Route::Of(request.target);
  const bool head = request.method == "HEAD" && std::string_view(route.method) == "GET";
  if (route.kind != Route::Kind::kNone && (request.method == route.method || head)) {
    switch (route.kind) {
      case Route::Kind::kChat:
        return std::make_shared<ChatExchange>(gateway_.StartChat({.api_key = KeyOf(request), .episode = route.episode},
                                                                 std::move(request.body), std::move(wake)),
                                              gateway_.options().retry_after_s);
      case Route::Kind::kOpen:
        return Blocking(std::move(request), std::move(wake), [this](const HttpRequest& r) { return Open(r); });
      case Route::Kind::kReward:
        return Blocking(std::move(request), std::move(wake),
                        [this, id = route.episode](const HttpRequest& r) { return Reward(r, id); });
      case Route::Kind::kEnd:
        return Blocking(std::move(request), std::move(wake),
                        [this, id = route.episode](const HttpRequest& r) { return End(r, id); });
      case Route::Kind::kMetrics:
        return Blocking(std::move(request), std::move(wake), [this](const HttpRequest&) {
          return HttpReply{.status = 200,
                           .content_type = "text/plain; version=0.0.4; charset=utf-8",
                           .headers = {},
                           .body = metrics_ ? metrics_() : gateway_.MetricsText()};
        });
      default:
        break;
    }
  }
  auto answer = std::make_shared<Answer>(Quick(request, route));
  wake();
  return answer;
}

HttpReply HttpApi::Quick(const HttpRequest& request, const Route& route) {
  if (route.kind == Route::Kind::kNone) {
    return Error(ApiError(404, "not_found", "",
                          absl::StrCat("there is nothing at ", Printable(request.target, 200),
                                       "; chat completions are at /v1/chat/completions")));
  }
  if (request.method != route.method && !(request.method == "HEAD" && std::string_view(route.method) == "GET")) {
    HttpReply reply =
        Error(ApiError(405, "method_not_allowed", "",
                       absl::StrCat("this path takes ", route.method, ", not ", Printable(request.method, 20))));
    reply.headers.emplace_back("Allow", route.method);
    return reply;
  }
  switch (route.kind) {
    case Route::Kind::kModels: {
      object list;
      list["object"] = "list";
      list["data"] = base::json::array{*base::ParseJson(ModelReply(gateway_.options().model_name).body)};
      return Json(200, list);
    }
    case Route::Kind::kModel:
      return ModelReply(route.name);
    case Route::Kind::kHealth:
      if (gateway_.shutting_down()) return Error(absl::UnavailableError("the gateway is shutting down"));
      return Json(200, object{{"status", "ok"}});
    default:
      return StatusReply();
  }
}

HttpReply HttpApi::ModelReply(const std::string& name) const {
  if (name != gateway_.options().model_name) {
    return Error(ApiError(404, "model_not_found", "model",
                          absl::StrCat("the model served here is '", gateway_.options().model_name, "'")));
  }
  return Json(200, object{{"id", name}, {"object", "model"}, {"created", 0}, {"owned_by", "ingot"}});
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

std::shared_ptr<Exchange> HttpApi::Blocking(HttpRequest request, std::function<void()> wake,
                                            std::function<HttpReply(const HttpRequest&)> answer) {
  auto exchange = std::make_shared<Answer>();
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
  auto scaffold = StringField(*body, "scaffold");
  if (!scaffold.ok()) return Error(scaffold.status());
  v1::EpisodeOpenRequest open;
  open.set_scaffold(*scaffold);
  auto opened = gateway_.OpenEpisode(open);
  if (!opened.ok()) return Error(opened.status());
  object json;
  json["episode_id"] = opened->episode_id();
  json["api_key"] = opened->api_key();
  json["base_url"] = opened->base_url();
  json["purpose"] = PurposeText(opened->purpose());
  json["group_id"] = opened->ref().group_id();
  json["sample_index"] = opened->ref().sample_index();
  json["attempt"] = opened->ref().attempt();
  json["task"] = TaskJson(opened->task());
  return Json(201, json);
}

HttpReply HttpApi::Reward(const HttpRequest& request, const std::string& episode) {
  auto body = ObjectBody(request);
  if (!body.ok()) return Error(body.status());
  std::optional<double> reward;
  const value* field = base::Find(*body, "reward");
  if (field != nullptr && !field->is_null()) {
    if (!field->is_number()) return Error(BadRequest("reward", "'reward' must be a number"));
    reward = field->to_number<double>();
  }
  std::map<std::string, double> signals;
  if (const value* named = base::Find(*body, "signals"); named != nullptr && !named->is_null()) {
    if (!named->is_object()) return Error(BadRequest("signals", "'signals' must be an object of numbers"));
    for (const auto& [name, number] : named->get_object()) {
      if (number.is_bool()) {
        signals[std::string(name)] = number.get_bool() ? 1 : 0;
      } else if (number.is_number()) {
        signals[std::string(name)] = number.to_number<double>();
      } else {
        return Error(BadRequest("signals", absl::StrCat("signal '", std::string(name), "' must be a number")));
      }
    }
  }
  if (!reward.has_value() && signals.empty())
    return Error(BadRequest("reward", "neither 'reward' nor 'signals' is there"));
  const absl::Status status = gateway_.RewardEpisode(episode, KeyOf(request), reward, signals);
  return status.ok() ? Json(200, object{}) : Error(status);
}

HttpReply HttpApi::End(const HttpRequest& request, const std::string& episode) {
  auto body = ObjectBody(request);
  if (!body.ok()) return Error(body.status());
  auto state = StringField(*body, "status");
  auto detail = StringField(*body, "detail");
  for (const auto* field : {&state, &detail}) {
    if (!field->ok()) return Error(field->status());
  }
  if (*state != "finished" && *state != "failed") {
    return Error(BadRequest("status", "'status' must be \"finished\" or \"failed\""));
  }
  v1::EpisodeEndRequest end;
  end.set_episode_id(episode);
  end.set_api_key(KeyOf(request));
  end.set_state(*state == "finished" ? v1::EPISODE_FINISHED : v1::EPISODE_FAILED);
  end.set_detail(*detail);
  const absl::Status status = gateway_.EndEpisode(end);
  return status.ok() ? Json(200, object{}) : Error(status);
}

}  // namespace ingot::gateway
