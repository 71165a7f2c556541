#include "gateway/http/http_api.h"

#include <algorithm>
#include <cctype>
#include <memory>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/printable.h"
#include "base/random.h"
#include "gateway/api/api_error.h"
#include "gateway/api/request_fields.h"
#include "gateway/api/role_name.h"
#include "gateway/backends.h"
#include "gateway/episodes/episode_request.h"
#include "gateway/http/http_files.h"
#include "gateway/http/http_forward.h"
#include "gateway/http/http_route.h"

namespace ingot::gateway {
namespace {

using base::json::object;
using base::json::value;

// A request whose head was read. Its body arrives later.
struct HttpRequest {
  std::string method;
  std::string target;
  std::string key;  // KeyOf; empty = no key was sent
  Headers headers;  // all headers
  HttpRoute route;
  std::function<bool()> client_gone;  // RequestHead::client_gone
  std::string body;
};

// ---- Replies ------------------------------------------------------------------------------------------------------

http::Reply Json(int status, const value& body) {
  return {.status = status, .content_type = "application/json", .body = base::PrintJson(body)};
}

// Adds the request id under the two names that vendor clients use.
void AddRequestId(std::string_view id, http::Fields& fields) {
  for (const char* name : {"x-request-id", "request-id"})
    fields.emplace_back(name, absl::StrCat("req_", base::View(id)));
}

// Formats an error for its dialect, with the headers that instruct vendor clients whether to retry.
http::Reply ErrorReply(const Dialect& dialect, const absl::Status& status) {
  Dialect::Error error = dialect.ErrorOf(status);
  http::Reply reply;
  reply.status = error.http;
  reply.body = std::move(error.body);
  if (ShouldRetryLater(status)) {
    reply.fields.emplace_back("Retry-After", std::to_string(kRetryAfterS));
  }
  if (!MayRetry(status)) reply.fields.emplace_back("x-should-retry", "false");
  return reply;
}

// Formats an error for a path that does not belong to a dialect.
http::Reply Error(const absl::Status& status) { return ErrorReply(ChatDialect(), status); }

absl::StatusOr<value> ObjectBody(const HttpRequest& request) {
  if (request.body.find_first_not_of(" \t\r\n") == std::string::npos) return value(object{});
  return ParseBody(request.body);
}

// Clients do not compress bodies by default.
bool IsEncoded(const Headers& headers) {
  const std::string_view encoding = headers.Get("content-encoding");
  return !encoding.empty() && encoding != "identity";
}

bool HasMethod(const HttpRequest& request) {
  const std::string_view method = request.route.method;
  return request.method == method || (request.method == "HEAD" && method == "GET");
}

HttpRequest RequestOf(const http::RequestHead& head) {
  HttpRequest request;
  for (const auto& [name, text] : head.fields) request.headers.Add(name, text);
  request.route = HttpRoute::Of(head.target, request.headers);
  // A client that can configure only a URL may put any string in it as its key.
  request.key = request.route.path_key.empty() ? head.Key() : request.route.path_key;
  if (request.key.empty()) request.key = request.route.key;
  if (const std::string role = TakeRole(request.key); !role.empty()) request.headers.Add(kRoleHeader, role);
  request.method = head.method;
  request.target = head.target;
  request.client_gone = head.client_gone;
  return request;
}

// Returns true if the request must be answered by the gateway that serves the caller's episode.
bool OfAnEpisode(const HttpRequest& request) {
  using Kind = HttpRoute::Kind;
  const Kind kind = request.route.kind;
  return HasMethod(request) && (kind == Kind::kDialect || kind == Kind::kReward || kind == Kind::kEnd ||
                                kind == Kind::kSnapshot || kind == Kind::kFiles);
}

// ---- Non-blocking answers ------------------------------------------------------------------------------------------

http::Reply StatusReply(const Gateway& gateway) {
  const v1::GatewayStatusResponse status = gateway.Status();
  object forks;
  for (const auto& [cause, count] : status.forks()) forks[cause] = count;
  object json;
  json["open_episodes"] = status.open_episodes();
  json["calls"] = status.calls();
  json["uncalled_episodes"] = status.uncalled_episodes();
  json["oldest_uncalled_s"] = static_cast<double>(status.oldest_uncalled_ms()) * 1e-3;
  json["active_calls"] = status.active_calls();
  json["spliced_calls"] = status.spliced_calls();
  json["forks"] = std::move(forks);
  return Json(200, json);
}

http::Reply QuickReply(Gateway& gateway, const HttpRequest& request) {
  const HttpRoute& route = request.route;
  const auto error = [&](int http, const char* code, const std::string& message) {
    const absl::Status rejected = ApiError(http, code, "", message);
    gateway.NoteAnswer({.api_key = request.key, .episode = route.episode}, rejected);
    return ErrorReply(*route.dialect, rejected);
  };
  if (IsEncoded(request.headers)) {
    http::Reply reply = error(415, "unsupported_encoding",
                              "the body has a Content-Encoding, which is not supported: send it unencoded");
    reply.fields.emplace_back("Accept-Encoding", "identity");
    return reply;
  }
  const bool root = route.kind == HttpRoute::Kind::kRoot && request.method != route.method;
  if (route.kind == HttpRoute::Kind::kNone || root) {
    std::string known;
    for (const Dialect* dialect : Dialects()) absl::StrAppend(&known, " /v1", base::View(dialect->path()));
    return error(404, "not_found",
                 absl::StrCat("unknown path: ", base::Printable(request.target, {.max_bytes = 200}), "; try", known));
  }
  if (!HasMethod(request)) {
    http::Reply reply = error(
        405, "method_not_allowed",
        absl::StrCat("this path accepts ", route.method, ", not ", base::Printable(request.method, {.max_bytes = 20})));
    reply.fields.emplace_back("Allow", route.method);
    return reply;
  }
  switch (route.kind) {
    case HttpRoute::Kind::kRoot:
      return Json(200, object{});
    case HttpRoute::Kind::kVersion:
      return Json(200, object{{"version", INGOT_VERSION}});
    case HttpRoute::Kind::kHealth:
      if (gateway.shutting_down()) return Error(absl::UnavailableError("the gateway is shutting down"));
      return Json(200, object{{"status", "ok"}});
    default:
      return StatusReply(gateway);
  }
}

// ---- Blocking answers ---------------------------------------------------------------------------------------------

http::Reply Models(const Gateway& gateway, const HttpRequest& request) {
  return {.body = request.route.dialect->ModelsJson(gateway.Models())};
}

http::Reply Model(const Gateway& gateway, const HttpRequest& request) {
  const std::vector<ServedModel> models = gateway.Models(request.route.name);
  if (!models.empty()) return {.body = request.route.dialect->ModelJson(models.front())};
  return ErrorReply(*request.route.dialect, UnknownModel(gateway.options(), request.route.name));
}

const char* PurposeText(v1::EpisodePurpose purpose) {
  if (purpose == v1::PURPOSE_EVAL) return "eval";
  return purpose == v1::PURPOSE_SERVE ? "serve" : "train";
}

// Returns the task as JSON. The payload is copied verbatim.
std::string TaskJson(const v1::Task& task) {
  std::string json = base::PrintJson(object{{"task_id", task.task_id()}, {"domain", task.domain()}});
  json.pop_back();
  const bool payload = base::ParseJson(task.payload_json()).ok();
  return absl::StrCat(json, ",\"payload\":", payload ? task.payload_json() : "null", "}");
}

// Returns the snapshot files URL, which is next to the episode's model URL.
std::string FilesUrl(const v1::EpisodeOpenResponse& opened) {
  const size_t path = opened.base_url().rfind("/s/");
  return absl::StrCat(opened.base_url().substr(0, path), "/ingot/v1/episodes/", opened.episode_id(), "/files");
}

http::Reply Open(Gateway& gateway, const HttpRequest& request) {
  auto body = ObjectBody(request);
  if (!body.ok()) return Error(body.status());
  v1::EpisodeOpenRequest open;
  const std::string text = base::WithoutLoneSurrogates(request.body).value_or(request.body);  // same as in ParseBody
  if (absl::Status read = ReadOpen(*body, base::JsonText(text), open); !read.ok()) return Error(read);
  open.set_admin_key(request.key);
  open.set_idempotency_key(std::string(request.headers.Get("idempotency-key")));
  auto opened = gateway.OpenEpisode(open);
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
  if (opened->has_fork()) {
    json["from_snapshot"] = opened->fork().snapshot_id();
    json["files_url"] = FilesUrl(*opened);
  }
  http::Reply reply = Json(201, json);
  reply.body.pop_back();
  absl::StrAppend(&reply.body, ",\"task\":", TaskJson(opened->task()), "}");
  return reply;
}

http::Reply Reward(Gateway& gateway, const HttpRequest& request) {
  auto body = ObjectBody(request);
  if (!body.ok()) return Error(body.status());
  v1::EpisodeRewardRequest reward;
  reward.set_episode_id(request.route.episode);
  reward.set_api_key(request.key);
  absl::Status status = ReadReward(*body, reward);
  if (status.ok()) status = gateway.RewardEpisode(reward, request.client_gone);
  if (!status.ok()) gateway.NoteAnswer({.api_key = request.key, .episode = request.route.episode}, status);
  return status.ok() ? Json(200, object{}) : Error(status);
}

http::Reply Feedback(Gateway& gateway, const HttpRequest& request) {
  auto body = ObjectBody(request);
  if (!body.ok()) return Error(body.status());
  absl::StatusOr<GivenFeedback> given = ReadFeedback(*body);
  if (!given.ok()) return Error(given.status());
  const absl::Status stored = gateway.GiveFeedback(request.key, *given);
  return stored.ok() ? Json(200, object{}) : Error(stored);
}

http::Reply End(Gateway& gateway, const HttpRequest& request) {
  auto body = ObjectBody(request);
  if (!body.ok()) return Error(body.status());
  v1::EpisodeEndRequest end;
  end.set_episode_id(request.route.episode);
  end.set_api_key(request.key);
  absl::Status status = ReadEnd(*body, end);
  if (status.ok()) status = gateway.EndEpisode(end).status();
  return status.ok() ? Json(200, object{}) : Error(status);
}

http::Reply Snapshot(Gateway& gateway, const HttpRequest& request) {
  v1::EpisodeSnapshotRequest wanted;
  wanted.set_episode_id(request.route.episode);
  wanted.set_api_key(request.key);
  const auto taken = gateway.SnapshotEpisode(wanted);
  if (!taken.ok()) return Error(taken.status());
  const v1::EpisodeFork& snapshot = taken->snapshot();
  object json;
  json["snapshot_id"] = snapshot.snapshot_id();
  json["episode_id"] = snapshot.episode_id();
  json["call_id"] = snapshot.call_id().empty() ? value(nullptr) : value(snapshot.call_id());
  return Json(201, json);
}

// ---- Exchanges ----------------------------------------------------------------------------------------------------

// An exchange for a model's answer.
class AnswerExchange final : public http::Exchange {
 public:
  AnswerExchange(Gateway& gateway, HttpRequest request) : gateway_(gateway), request_(std::move(request)) {}

  void Body(std::string body, std::function<void()> wake) override {
    RawRequest raw{.body = std::move(body),
                   .headers = std::move(request_.headers),
                   .model = std::move(request_.route.name),
                   .query = std::move(request_.route.query)};
    answer_ = gateway_.StartAnswer({.api_key = std::move(request_.key), .episode = std::move(request_.route.episode)},
                                   *request_.route.dialect, std::move(raw), std::move(wake));
  }
  http::Output Send() override {
    Answer::Output news = answer_->TakeOutput();
    http::Output output;
    output.done = news.done;
    if (news.done && !news.status.ok() && !streams_ && news.events.empty()) {
      output.reply = ErrorReply(answer_->dialect(), news.status);
    } else if (!news.stream && !news.events.empty()) {
      output.reply = http::Reply{.body = std::move(news.events[0].data)};
    } else if (news.stream) {
      for (const WireEvent& event : news.events) AppendFramed(event, news.framing, output.data);
      output.data += news.trailer;
      if (!streams_ && !output.data.empty()) {
        output.stream = http::StreamHead{.content_type = news.framing.content_type,
                                         .fields = {{"Cache-Control", "no-cache"}},
                                         .filler = news.framing.filler};
        AddRequestId(answer_->id(), output.stream->fields);
        streams_ = true;
      }
    }
    if (output.reply.has_value()) AddRequestId(answer_->id(), output.reply->fields);
    return output;
  }
  void Closed(http::Side side) override {
    answer_->Abort(side == http::Side::kServer ? absl::UnavailableError("the gateway is shutting down")
                                               : absl::CancelledError("the client disconnected"));
  }

 private:
  void AppendFramed(const WireEvent& event, const Framing& framing, std::string& out) {
    if (!framing.is_array) return event.AppendSse(out);
    absl::StrAppend(&out, any_events_ ? ",\n" : "[", event.data);
    any_events_ = true;
  }

  Gateway& gateway_;
  HttpRequest request_;  // moved from in Body
  std::shared_ptr<Answer> answer_;
  bool any_events_ = false;  // the array stream already has an event
  bool streams_ = false;     // the stream's head was sent
};

// An exchange for a blocking function, which runs on a gateway worker. The function runs to completion even if the
// client disconnects.
using Function = std::function<http::Reply(const HttpRequest&)>;

http::Work WorkOf(Gateway& gateway, HttpRequest request, Function answer) {
  const auto with_id = [](http::Reply reply) {
    AddRequestId(base::RandomHex(16), reply.fields);
    return reply;
  };
  return {.post = [&gateway](std::function<void()> job) { return gateway.RunOnWorker(std::move(job)); },
          .answer =
              [request = std::move(request), answer = std::move(answer), with_id](std::string body) mutable {
                request.body = std::move(body);
                return with_id(answer(request));
              },
          .busy =
              [&gateway, with_id] {
                const auto busy =
                    ApiError(503, "overloaded", "", "too many requests are waiting for a worker: try again later");
                return with_id(Error(busy));
              }};
}

}  // namespace

http::Opening HttpApi::Head(http::RequestHead head) {
  const HttpRequest request = RequestOf(head);
  std::function<absl::StatusOr<std::string>()> place;
  const std::string once(request.headers.Get("idempotency-key"));
  Caller caller{.api_key = request.key, .episode = request.route.episode};
  if (OfAnEpisode(request) && gateway_.MayBeElsewhere(caller)) {
    place = [&gateway = gateway_, caller] { return gateway.Place(caller); };
  } else if (request.route.kind == HttpRoute::Kind::kOpen && HasMethod(request) && gateway_.peers() != nullptr &&
             !once.empty()) {
    place = [&gateway = gateway_, once] { return gateway.PlaceOpening(once); };
  }
  if (place == nullptr) return Answer(std::move(head));
  return {.exchange = MakePlacedExchange(
              gateway_, {.head = std::move(head),
                         .place = std::move(place),
                         .here = [this](http::RequestHead placed) { return Answer(std::move(placed)); },
                         .reject =
                             [dialect = request.route.dialect](const absl::Status& status) {
                               http::Reply reply = ErrorReply(*dialect, status);
                               AddRequestId(base::RandomHex(16), reply.fields);
                               return reply;
                             }})};
}

http::Opening HttpApi::Answer(http::RequestHead head) {
  HttpRequest request = RequestOf(head);
  Function answer;
  if (HasMethod(request) && !IsEncoded(request.headers)) {
    switch (request.route.kind) {
      case HttpRoute::Kind::kDialect:
        return {.exchange = std::make_shared<AnswerExchange>(gateway_, std::move(request))};
      case HttpRoute::Kind::kModels:
        answer = [&gateway = gateway_](const HttpRequest& r) { return Models(gateway, r); };
        break;
      case HttpRoute::Kind::kModel:
        answer = [&gateway = gateway_](const HttpRequest& r) { return Model(gateway, r); };
        break;
      case HttpRoute::Kind::kOpen:
        answer = [&gateway = gateway_](const HttpRequest& r) { return Open(gateway, r); };
        break;
      case HttpRoute::Kind::kReward:
        answer = [&gateway = gateway_](const HttpRequest& r) { return Reward(gateway, r); };
        break;
      case HttpRoute::Kind::kEnd:
        answer = [&gateway = gateway_](const HttpRequest& r) { return End(gateway, r); };
        break;
      case HttpRoute::Kind::kFeedback:
        answer = [&gateway = gateway_](const HttpRequest& r) { return Feedback(gateway, r); };
        break;
      case HttpRoute::Kind::kFiles: {
        auto reject = [&gateway = gateway_](const absl::Status& status) {
          http::Reply reply = Error(status);
          AddRequestId(base::RandomHex(16), reply.fields);
          return reply;
        };
        return {.exchange = MakeFilesExchange(gateway_, {.api_key = request.key, .episode = request.route.episode},
                                              std::move(reject))};
      }
      case HttpRoute::Kind::kSnapshot:
        answer = [&gateway = gateway_](const HttpRequest& r) { return Snapshot(gateway, r); };
        break;
      default:
        break;
    }
  }
  if (answer) {
    return {.exchange = http::MakeExchange(WorkOf(gateway_, std::move(request), std::move(answer)))};
  }
  return {.exchange = http::MakeExchange([&gateway = gateway_, request = std::move(request)](const std::string&) {
            http::Reply reply = QuickReply(gateway, request);
            AddRequestId(base::RandomHex(16), reply.fields);
            return reply;
          })};
}

http::Reply HttpApi::Reject(std::string_view target, const http::Rejection& why) {
  const HttpRoute route = HttpRoute::Of(target, {});
  const absl::Status rejected = ApiError(why.status, why.code, "", why.message);
  gateway_.NoteAnswer({.api_key = {}, .episode = route.episode}, rejected);
  http::Reply reply = ErrorReply(*route.dialect, rejected);
  AddRequestId(base::RandomHex(16), reply.fields);
  return reply;
}

}  // namespace ingot::gateway
