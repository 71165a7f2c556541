#include "execution/session_requests.h"

#include <string_view>
#include <utility>

#include "absl/time/time.h"
#include "base/clock.h"
#include "base/utf8.h"
#include "execution/fields.h"
#include "execution/files_api.h"
#include "execution/program_feeds.h"
#include "execution/requests.h"

namespace ingot::execution {
namespace {

using base::json::array;
using base::json::object;
using base::json::value;

constexpr double kLongestSeconds = 24 * 3600;

Program ProgramOf(const Code& code, const std::map<std::string, std::string>& env, const sandbox::Limits& limits) {
  return {.argv = code.argv,
          .env = env,
          .memory_bytes = limits.memory_bytes,
          .cpu_seconds = limits.cpu_seconds,
          .wall_time = limits.wall_time};
}

// Writes a request's files and the file that its code needs.
absl::StatusOr<Code> PlaceCode(Session& session, const value& request) {
  INGOT_ASSIGN_OR_RETURN(const auto files, MapField(request, "files"));
  for (const auto& [path, text] : files)
    INGOT_RETURN_IF_ERROR(base::Annotate(WriteWhole(session, path, text), "files"));
  INGOT_ASSIGN_OR_RETURN(Code code, CodeOf(request));
  if (!code.file.empty()) INGOT_RETURN_IF_ERROR(WriteWhole(session, code.file, code.text));
  return code;
}

object EntryJson(const Entry& entry) {
  const char* const type = entry.type == 'd'   ? "folder"
                           : entry.type == 'f' ? "file"
                           : entry.type == 'l' ? "link"
                                               : "other";
  object json = {
      {"path", base::ToUtf8(entry.path)}, {"type", type}, {"size", entry.size}, {"mode", entry.permissions()}};
  if (entry.type == 'l') json["target"] = base::ToUtf8(entry.target);
  return json;
}

Answer PartsOf(absl::StatusOr<std::shared_ptr<Feed>> feed) {
  if (!feed.ok()) return ErrorReply(feed.status());
  return *std::move(feed);
}

absl::StatusOr<std::shared_ptr<Feed>> StreamOrError(std::shared_ptr<HeldSession> held, const value& request,
                                                    std::function<void()> wake) {
  static const Keys kKeys{.kind = "a stream",
                          .request = {"language", "code", "command", "files", "env", "stream", "limits"},
                          .limits = {"wall_s", "memory_bytes", "cpu_s"}};
  INGOT_RETURN_IF_ERROR(CheckKeys(request, kKeys));
  INGOT_ASSIGN_OR_RETURN(const sandbox::Limits limits, LimitsOf(request));
  INGOT_ASSIGN_OR_RETURN(const auto env, MapField(request, "env"));
  INGOT_ASSIGN_OR_RETURN(const Code code, PlaceCode(*held->session, request));
  INGOT_ASSIGN_OR_RETURN(Session::StartedProgram started,
                         held->session->Start(ProgramOf(code, env, limits), std::move(wake)));
  return MakeProgramFeed(std::move(held), std::move(started), OwnProgramWords());
}

absl::StatusOr<std::shared_ptr<Feed>> CellOrError(std::shared_ptr<HeldSession> held, const std::string& body,
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

}  // namespace

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

object Describe(HeldSession& held) {
  return {{"id", held.id},
          {"folder", held.session->folder()},
          {"started_at", absl::FormatTime(absl::RFC3339_sec, absl::FromChrono(held.started_at), absl::UTCTimeZone())},
          {"ends_at", absl::FormatTime(absl::RFC3339_sec, absl::FromChrono(held.ends_at()), absl::UTCTimeZone())},
          {"memory_bytes", held.request.totals.memory_bytes},
          {"programs", held.session->Processes().size()}};
}

Answer StreamProgram(std::shared_ptr<HeldSession> held, const value& request, std::function<void()> wake) {
  return PartsOf(StreamOrError(std::move(held), request, std::move(wake)));
}

Answer RunCell(std::shared_ptr<HeldSession> held, const std::string& body, std::function<void()> wake) {
  return PartsOf(CellOrError(std::move(held), body, std::move(wake)));
}

Answer AnswerFile(std::shared_ptr<HeldSession> held, const std::string& method, const std::string& path,
                  const std::string& body, std::function<void()> wake) {
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

}  // namespace ingot::execution
