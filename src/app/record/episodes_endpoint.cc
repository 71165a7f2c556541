#include "app/record/episodes_endpoint.h"

#include <chrono>
#include <utility>

#include "app/cluster/status/socket_question.h"
#include "base/printable.h"

namespace ingot::app {
namespace {

using base::json::array;
using base::json::object;
using base::json::value;

constexpr char kListPath[] = "/episodes", kEndPath[] = "/episodes/end";
constexpr char kWho[] = "the run";
constexpr std::chrono::milliseconds kEndsWithin{60'000};  // each end blocks on the pool

std::string SocketOf(const std::string& folder) { return folder + "/sockets/episodes.sock"; }

http::Reply ErrorReply(int status, const absl::Status& error) {
  return {.status = status,
          .body = base::PrintJson(object{{"error", base::Printable(std::string(error.message()))},
                                         {"code", static_cast<int64_t>(error.code())}})};
}

http::Reply ReplyOf(const absl::StatusOr<value>& answer) {
  if (answer.ok()) return {.body = base::PrintJson(*answer)};
  return ErrorReply(absl::IsInvalidArgument(answer.status()) ? 400 : 409, answer.status());
}

value ListOf(const Gateways& gateways) {
  const UncalledEpisodes uncalled = AskUncalled(gateways);
  array episodes, silent;
  for (const v1::UncalledEpisode& one : uncalled.all.uncalled()) {
    episodes.push_back(object{{"episode", one.episode_id()},
                              {"age_s", static_cast<double>(one.age_ms()) * 1e-3},
                              {"group", one.ref().group_id()},
                              {"sample", one.ref().sample_index()},
                              {"attempt", one.ref().attempt()},
                              {"kind", one.purpose() == v1::PURPOSE_EVAL ? "eval" : "train"},
                              {"task", base::Printable(one.task_id())},
                              {"scaffold", base::Printable(one.scaffold())}});
  }
  for (const std::string& gateway : uncalled.silent) silent.push_back(value(base::Printable(gateway)));
  return object{{"count", uncalled.all.uncalled_episodes()},
                {"oldest_s", static_cast<double>(uncalled.all.oldest_uncalled_ms()) * 1e-3},
                {"episodes", std::move(episodes)},
                {"silent", std::move(silent)}};
}

// Returns the id in the body; empty = all episodes.
absl::StatusOr<std::string> IdIn(const std::string& body) {
  constexpr char kForm[] = R"(the body is {"episode": ID} or {"all": true})";
  const absl::StatusOr<value> json = base::ParseJson(body);
  if (!json.ok() || !json->is_object() || json->get_object().size() != 1) return absl::InvalidArgumentError(kForm);
  const value* const episode = base::Find(*json, "episode");
  const value* const all = base::Find(*json, "all");
  if (episode != nullptr && episode->is_string() && !episode->get_string().empty()) {
    return std::string(episode->get_string());
  }
  if (all != nullptr && all->is_bool() && all->get_bool()) return std::string();
  return absl::InvalidArgumentError(kForm);
}

absl::StatusOr<value> EndIn(const Gateways& gateways, const std::string& body, const std::string& key) {
  INGOT_ASSIGN_OR_RETURN(const std::string id, IdIn(body));
  const absl::StatusOr<int64_t> ended = EndUncalled(gateways, id, key);
  // UNAVAILABLE would mean that no process serves the episodes.
  if (absl::IsUnavailable(ended.status())) return absl::DeadlineExceededError(ended.status().message());
  INGOT_RETURN_IF_ERROR(ended.status());
  return object{{"ended", *ended}};
}

// Returns the JSON or the error in the response of a run's process.
absl::StatusOr<value> AnswerOf(const absl::StatusOr<http::Answer>& answer) {
  INGOT_RETURN_IF_ERROR(answer.status());
  const absl::StatusOr<value> json = base::ParseJson(answer->body);
  if (json.ok() && answer->status == 200) return *json;
  const value* const error = json.ok() ? base::Find(*json, "error") : nullptr;
  const value* const code = json.ok() ? base::Find(*json, "code") : nullptr;
  if (error == nullptr || !error->is_string() || code == nullptr || !code->is_int64()) {
    return absl::InternalError(absl::StrCat("the run responded with status ", answer->status, " but no error"));
  }
  return {absl::Status(static_cast<absl::StatusCode>(code->get_int64()), std::string(error->get_string()))};
}

}  // namespace

absl::StatusOr<std::unique_ptr<EpisodesEndpoint>> EpisodesEndpoint::Start(const std::string& folder,
                                                                          Gateways gateways) {
  http::Options options;
  options.unix_socket = SocketOf(folder);
  options.max_connections = 16;
  options.max_body_bytes = options.max_buffered_bytes = 4096;
  auto endpoint = std::unique_ptr<EpisodesEndpoint>(new EpisodesEndpoint(std::move(gateways)));
  INGOT_ASSIGN_OR_RETURN(endpoint->server_, http::Server::Listen(options, *endpoint));
  endpoint->server_->Serve();
  return endpoint;
}

http::Opening EpisodesEndpoint::Head(http::RequestHead head) {
  const bool lists = head.method == "GET" && head.target == kListPath;
  const bool ends = head.method == "POST" && head.target == kEndPath;
  if (!lists && !ends) {
    return {.rejection = ErrorReply(404, absl::NotFoundError("GET /episodes, or POST /episodes/end"))};
  }
  const auto answer = [this, lists, key = head.Key()](const std::string& body) {
    return ReplyOf(lists ? absl::StatusOr<value>(ListOf(gateways_)) : EndIn(gateways_, body, key));
  };
  return {.exchange = http::MakeExchange(
              http::Work{.post = [this](std::function<void()> job) { return thread_.TryPost(std::move(job)).ok(); },
                         .answer = answer,
                         .busy =
                             [] {
                               return ErrorReply(
                                   503, absl::ResourceExhaustedError("too many requests are waiting: try again later"));
                             }})};
}

absl::StatusOr<value> AskForEpisodes(const std::string& folder) {
  return AnswerOf(AskSocket(SocketOf(folder), kListPath, kWho));
}

absl::StatusOr<int64_t> AskToEnd(const std::string& folder, const std::string& episode_id, const std::string& key) {
  INGOT_RETURN_IF_ERROR(CheckEpisodeId(episode_id));
  const std::string body =
      base::PrintJson(episode_id.empty() ? object{{"all", true}} : object{{"episode", episode_id}});
  http::ClientRequest request{.url = kEndPath, .method = "POST", .body = body, .key = key, .timeout = kEndsWithin};
  INGOT_ASSIGN_OR_RETURN(const value answer, AnswerOf(AskSocket(SocketOf(folder), std::move(request), kWho)));
  const value* const ended = base::Find(answer, "ended");
  if (ended != nullptr && ended->is_int64()) return ended->get_int64();
  return absl::InternalError("the run's response does not say how many episodes it ended");
}

}  // namespace ingot::app
