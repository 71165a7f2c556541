#include "execution/service.h"

#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/secret.h"
#include "execution/cases.h"
#include "execution/fields.h"
#include "execution/files_api.h"
#include "execution/program_feeds.h"
#include "execution/requests.h"
#include "execution/utf8.h"

namespace ingot::execution {
namespace {

using base::json::array;
using base::json::object;
using base::json::value;

constexpr std::string_view kPrefix = "/ingot/v1/";
constexpr int64_t kLargestBody = 64 << 20;
constexpr double kLongestSeconds = 24 * 3600;
constexpr int kQuickThreads = 4;
constexpr size_t kMostQuick = 1024;
// Sessions that open at a time: each may wait for its image.
constexpr int kOpeningThreads = 16;

http::Reply Busy() { return ErrorReply(429, "too_many", "all slots are taken, and as many requests wait: try again"); }

http::Reply NoSession() {
  return ErrorReply(404, "not_found", "there is no such session: it ended, or nobody used it for too long");
}

// `most`: of a room, for processes and CPUs. The store bounds the memory of all sessions together.
absl::StatusOr<OpenRequest> OpenRequestOf(const value& request, const sandbox::GroupLimits& most) {
  static const Keys kKeys{.kind = "a session",
                          .request = {"image", "env", "limits"},
                          .limits = {"memory_bytes", "processes", "cpus", "idle_s", "lifetime_s"}};
  INGOT_RETURN_IF_ERROR(CheckKeys(request, kKeys));
  OpenRequest open;
  INGOT_ASSIGN_OR_RETURN(open.image, ImageOf(request));
  INGOT_ASSIGN_OR_RETURN(open.env, MapField(request, "env"));
  INGOT_ASSIGN_OR_RETURN(open.totals, TotalsOf(request, {.processes = most.processes, .cpus = most.cpus}));
  INGOT_ASSIGN_OR_RETURN(const double idle, LimitField(request, "idle_s", 0, {.most = kLongestSeconds}));
  INGOT_ASSIGN_OR_RETURN(const double lifetime, LimitField(request, "lifetime_s", 0, {.most = kLongestSeconds}));
  open.idle = base::FromSeconds(idle);
  open.lifetime = base::FromSeconds(lifetime);
  return open;
}

Program ProgramOf(const Code& code, const std::map<std::string, std::string>& env, const sandbox::Limits& limits) {
  return {.argv = code.argv,
          .env = env,
          .memory_bytes = limits.memory_bytes,
          .cpu_seconds = limits.cpu_seconds,
          .wall_time = limits.wall_time};
}

// Writes the files of a request, and what its code needs.
absl::StatusOr<Code> PlaceCode(Session& session, const value& request) {
  INGOT_ASSIGN_OR_RETURN(const auto files, MapField(request, "files"));
  for (const auto& [path, text] : files)
    INGOT_RETURN_IF_ERROR(base::Annotate(WriteWhole(session, path, text), "files"));
  INGOT_ASSIGN_OR_RETURN(Code code, CodeOf(request));
  if (!code.file.empty()) INGOT_RETURN_IF_ERROR(WriteWhole(session, code.file, code.text));
  return code;
}

absl::StatusOr<std::shared_ptr<Feed>> StreamProgram(std::shared_ptr<Held> held, const value& request,
                                                    std::function<void()> wake) {
  static const Keys kKeys{.kind = "a stream",
                          .request = {"language", "code", "command", "files", "env", "stream", "limits"},
                          .limits = {"wall_s", "memory_bytes", "cpu_s"}};
  INGOT_RETURN_IF_ERROR(CheckKeys(request, kKeys));
  INGOT_ASSIGN_OR_RETURN(const sandbox::Limits limits, LimitsOf(request));
  INGOT_ASSIGN_OR_RETURN(const auto env, MapField(request, "env"));
  INGOT_ASSIGN_OR_RETURN(const Code code, PlaceCode(*held->session, request));
  INGOT_ASSIGN_OR_RETURN(Session::Started started, held->session->Start(ProgramOf(code, env, limits), std::move(wake)));
  return MakeProgramFeed(std::move(held), std::move(started), OwnProgramWords());
}

absl::StatusOr<std::shared_ptr<Feed>> RunCell(std::shared_ptr<Held> held, const std::string& body,
                                              std::function<void()> wake) {
  static const Keys kWhole{
      .kind = "a cell", .request = {"code", "env", "stream", "limits"}, .limits = {"wall_s", "output_bytes"}};
  static const Keys kStreamed{.kind = "a cell with a stream", .request = kWhole.request, .limits = {"wall_s"}};
  INGOT_ASSIGN_OR_RETURN(const value request, ParseObject(body));
  INGOT_ASSIGN_OR_RETURN(const bool streams, FlagField(request, "stream"));
  INGOT_RETURN_IF_ERROR(CheckKeys(request, streams ? kStreamed : kWhole));
  INGOT_ASSIGN_OR_RETURN(const sandbox::Limits limits, LimitsOf(request));
  CellRequest cell;
  const value* const code = base::Find(request, "code");
  if (code == nullptr) return absl::InvalidArgumentError("a cell needs 'code'");
  INGOT_ASSIGN_OR_RETURN(cell.code, TextOf(*code, "code"));
  INGOT_ASSIGN_OR_RETURN(cell.env, MapField(request, "env"));
  cell.wall_time = limits.wall_time;
  auto interpreter = held->FindInterpreter("");
  if (streams)
    return MakeCellFeed(std::move(held), std::move(interpreter), std::move(cell), OwnCellWords(), std::move(wake));
  return MakeWholeCell(std::move(held), std::move(interpreter), std::move(cell),
                       static_cast<size_t>(limits.output_bytes), std::move(wake));
}

object Describe(Held& held) {
  return {{"id", held.id},
          {"folder", held.session->folder()},
          {"started_at", absl::FormatTime(absl::RFC3339_sec, absl::FromChrono(held.started_at), absl::UTCTimeZone())},
          {"ends_at", absl::FormatTime(absl::RFC3339_sec, absl::FromChrono(held.ends_at()), absl::UTCTimeZone())},
          {"memory_bytes", held.request.totals.memory_bytes},
          {"programs", held.session->Processes().size()}};
}

std::variant<http::Reply, std::shared_ptr<Feed>> PartsOf(absl::StatusOr<std::shared_ptr<Feed>> feed) {
  if (!feed.ok()) return ErrorReply(feed.status());
  return *std::move(feed);
}

object EntryJson(const Entry& entry) {
  const char* const type = entry.type == 'd'   ? "folder"
                           : entry.type == 'f' ? "file"
                           : entry.type == 'l' ? "link"
                                               : "other";
  object json = {{"path", ValidUtf8(entry.path)}, {"type", type}, {"size", entry.size}, {"mode", entry.permissions()}};
  if (entry.type == 'l') json["target"] = ValidUtf8(entry.target);
  return json;
}

std::variant<http::Reply, std::shared_ptr<Feed>> AnswerFile(std::shared_ptr<Held> held, const std::string& method,
                                                            const std::string& path, const std::string& body,
                                                            std::function<void()> wake) {
  Session& session = *held->session;
  if (method == "PUT") {
    const absl::Status written = WriteWhole(session, path, body);
    return written.ok() ? JsonReply(200, object{{"path", session.Absolute(path)}}) : ErrorReply(written);
  }
  if (method == "DELETE") {
    const absl::Status removed = session.Ask(FileOp::kRemove, {}, path).status;
    return removed.ok() ? JsonReply(200, object()) : ErrorReply(removed);
  }
  const auto entry = StatFile(session, path);
  if (!entry.ok()) return ErrorReply(entry.status());
  if (entry->type != 'd') return PartsOf(MakeDownload(std::move(held), path, std::move(wake)));
  const auto entries = ListFolder(session, path, 1);
  if (!entries.ok()) return ErrorReply(entries.status());
  array list;
  for (const Entry& each : *entries) list.push_back(EntryJson(each));
  return JsonReply(200, object{{"entries", std::move(list)}});
}

}  // namespace

Service::Service(std::unique_ptr<sandbox::Substrate> substrate, ServiceOptions options)
    : substrate_(std::move(substrate)),
      options_(std::move(options)),
      images_(options_.images, {.folders = options_.image_folders}),
      store_(*substrate_, images_, options_.store),
      e2b_sandboxes_(store_),
      e2b_process_(store_),
      e2b_files_(store_),
      e2b_code_(store_),
      slots_({.name = "execution", .threads = options_.slots, .max_queued = static_cast<size_t>(options_.slots)}),
      opens_({.name = "opening", .threads = kOpeningThreads, .max_queued = kMostQuick}),
      quick_({.name = "sessions", .threads = kQuickThreads, .max_queued = kMostQuick}) {}

Service::~Service() {
  // Programs and image tools that requests wait for end, and the requests with them.
  requests_.CancelAll();
  images_.Stop();
  opens_.Shutdown();
  for (const auto& held : store_.List()) store_.Remove(held->id);
  slots_.Shutdown();
  quick_.Shutdown();
}

http::Opening Service::Whole(base::Executor& threads, std::function<http::Reply(std::string)> answer) {
  http::Work work{.post = [&threads](std::function<void()> job) { return threads.TryPost(std::move(job)).ok(); },
                  .answer = std::move(answer),
                  .busy = Busy};
  return {.exchange = http::MakeExchange(std::move(work)), .refusal = {}, .max_body_bytes = kLargestBody};
}

http::Opening Service::Parts(Opener open) {
  return {.exchange = MakeFeedExchange(quick_, std::move(open), Busy()), .refusal = {}, .max_body_bytes = kLargestBody};
}

http::Opening Service::Head(http::RequestHead head) {
  const Target target = ParseTarget(head.target);
  // A sandbox's own token opens these.
  if (E2bFiles::Owns(head, target.path)) {
    return Parts([this, head, target](const std::string& body, std::function<void()> wake) {
      return e2b_files_.Open(head, target, body, std::move(wake));
    });
  }
  if (E2bProcess::Owns(target.path)) {
    return Parts([this, head, path = target.path](const std::string& body, std::function<void()> wake) {
      return e2b_process_.Open(head, path, body, std::move(wake));
    });
  }
  if (E2bCode::Owns(target.path)) {
    return Parts([this, head, path = target.path](const std::string& body, std::function<void()> wake) {
      return e2b_code_.Open(head, path, body, std::move(wake));
    });
  }
  if (target.path == "/health") {
    const std::string rung(sandbox::RungName(substrate_->grant().rung));
    return {.exchange =
                http::MakeExchange([rung](const std::string&) { return JsonReply(200, object{{"rung", rung}}); })};
  }
  const bool is_e2b = E2bSandboxes::Owns(target);
  if (!options_.key.empty() && !base::SameSecret(head.Key(), options_.key)) {
    const auto why = absl::UnauthenticatedError("show the service's key as X-API-Key");
    return {.exchange = nullptr,
            .refusal = is_e2b ? E2bError(why)
                              : ErrorReply(401, "invalid_key", "show the service's key as Authorization: Bearer")};
  }
  if (E2bSandboxes::Opens(head, target)) {
    return Parts([this](const std::string& body, std::function<void()> wake) {
      return Post(
          opens_, [this, body](const auto& cancel) { return e2b_sandboxes_.Open(body, cancel); }, std::move(wake));
    });
  }
  if (is_e2b) {
    return Whole(quick_,
                 [this, head, target](const std::string& body) { return e2b_sandboxes_.Answer(head, target, body); });
  }
  if (target.path.starts_with(kPrefix)) return OpenOwn(head);
  return {.exchange = nullptr,
          .refusal = ErrorReply(404, "not_found", "there is /ingot/v1/execute, /ingot/v1/sessions and E2B's API")};
}

http::Opening Service::OpenOwn(const http::RequestHead& head) {
  const std::string path = ParseTarget(head.target).path.substr(kPrefix.size());
  if (path == "execute" && head.method == "POST")
    return Parts([this](const std::string& body, auto wake) { return Execute(body, std::move(wake)); });
  if (path == "sessions" && head.method == "POST")
    return Parts([this](const std::string& body, auto wake) { return AddSession(body, std::move(wake)); });
  if (path == "sessions" && head.method == "GET") {
    return Whole(quick_, [this](const std::string&) {
      array list;
      for (const auto& held : store_.List()) list.push_back(Describe(*held));
      return JsonReply(200, object{{"sessions", std::move(list)}});
    });
  }
  if (path.starts_with("sessions/")) return OpenSession(head, path.substr(9));
  return {.exchange = nullptr,
          .refusal = ErrorReply(404, "not_found", absl::StrCat("there is no ", head.method, " ", head.target))};
}

Service::Answer Service::Post(base::Executor& threads,
                              std::function<http::Reply(const sandbox::Cancellation& cancel)> answer,
                              std::function<void()> wake) {
  const std::shared_ptr<sandbox::Cancellation> cancel = requests_.New();
  auto feed = MakePostedFeed(
      threads, cancel, [cancel, answer = std::move(answer)] { return answer(*cancel); }, std::move(wake));
  if (feed == nullptr) return Busy();
  return feed;
}

Service::Answer Service::Execute(const std::string& body, std::function<void()> wake) {
  const auto request = base::ParseJson(body);
  if (!request.ok()) return ErrorReply(request.status());
  auto batch = ParseNewRoomBatch(*request, substrate_->options().totals);
  if (!batch.ok()) return ErrorReply(batch.status());
  const auto answer = [this, batch = std::make_shared<const Batch>(*std::move(batch))](const auto& cancel) {
    return ReplyOf(RunInNewRoom(*substrate_, images_, *batch, cancel));
  };
  return Post(slots_, answer, std::move(wake));
}

Service::Answer Service::AddSession(const std::string& body, std::function<void()> wake) {
  const auto request = ParseObject(body);
  if (!request.ok()) return ErrorReply(request.status());
  auto open = OpenRequestOf(*request, substrate_->options().totals);
  if (!open.ok()) return ErrorReply(open.status());
  const auto answer = [this, open = *std::move(open)](const auto& cancel) {
    const auto held = store_.Open(open, cancel);
    if (!held.ok()) return ErrorReply(held.status());
    return JsonReply(200, object{{"id", (*held)->id}, {"folder", (*held)->session->folder()}});
  };
  return Post(opens_, answer, std::move(wake));
}

Service::Answer Service::OpenExecute(std::shared_ptr<Held> held, const std::string& body, std::function<void()> wake) {
  const auto request = base::ParseJson(body);
  if (!request.ok()) return ErrorReply(request.status());
  const auto streams = FlagField(*request, "stream");
  if (!streams.ok()) return ErrorReply(streams.status());
  if (*streams) return PartsOf(StreamProgram(std::move(held), *request, std::move(wake)));
  auto batch = ParseSessionBatch(*request);
  if (!batch.ok()) return ErrorReply(batch.status());
  const auto answer = [held, batch = std::make_shared<const Batch>(*std::move(batch))](const auto& cancel) {
    return ReplyOf(RunInSession(*held->session, *batch, cancel));
  };
  return Post(slots_, answer, std::move(wake));
}

http::Opening Service::OpenSession(const http::RequestHead& head, const std::string& rest) {
  const std::vector<std::string> parts = absl::StrSplit(rest, absl::MaxSplits('/', 2));
  const std::string id = parts[0], action = parts.size() > 1 ? parts[1] : "", &method = head.method;
  if (action.empty() && method == "GET") {
    return Whole(quick_, [this, id](const std::string&) {
      const auto held = store_.Find(id);
      return held == nullptr ? NoSession() : JsonReply(200, Describe(*held));
    });
  }
  if (action.empty() && method == "DELETE") {
    return Whole(quick_,
                 [this, id](const std::string&) { return store_.Remove(id) ? JsonReply(200, object()) : NoSession(); });
  }
  if (action == "files" && parts.size() == 3 && (method == "GET" || method == "PUT" || method == "DELETE")) {
    const std::string path = PercentDecode(parts[2]);
    return Parts([this, id, method, path](const std::string& body, std::function<void()> wake) -> Answer {
      auto held = store_.Find(id);
      if (held == nullptr) return NoSession();
      return AnswerFile(std::move(held), method, path, body, std::move(wake));
    });
  }
  if (method == "POST" && parts.size() == 2 && (action == "interrupt" || action == "restart")) {
    return Whole(quick_, [this, id, action](const std::string&) {
      const auto held = store_.Find(id);
      if (held == nullptr) return NoSession();
      const auto interpreter = held->FindInterpreter("");
      action == "restart" ? interpreter->Restart() : interpreter->Interrupt();
      return JsonReply(200, object());
    });
  }
  if (method == "POST" && parts.size() == 2 && (action == "cells" || action == "execute")) {
    const bool is_cell = action == "cells";
    return Parts([this, id, is_cell](const std::string& body, std::function<void()> wake) -> Answer {
      auto held = store_.Find(id);
      if (held == nullptr) return NoSession();
      if (is_cell) return PartsOf(RunCell(std::move(held), body, std::move(wake)));
      return OpenExecute(std::move(held), body, std::move(wake));
    });
  }
  return {.exchange = nullptr,
          .refusal = ErrorReply(404, "not_found", absl::StrCat("a session has no ", method, " ", rest))};
}

}  // namespace ingot::execution
