#include "execution/e2b/e2b_code.h"

#include <chrono>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "execution/e2b/e2b_sandboxes.h"
#include "execution/fields.h"
#include "execution/program_feeds.h"
#include "execution/requests.h"

namespace ingot::execution {
namespace {

using base::json::array;
using base::json::object;
using base::json::value;

constexpr char kFirst[] = "default";  // name of the first interpreter, which always exists

std::string Line(const object& json) { return base::PrintJson(json) + "\n"; }

object Typed(const char* type, const object& fields) {
  object json = {{"type", type}};
  for (const auto& [name, field] : fields) json[name] = field;
  return json;
}

std::string LineOf(const CellEvent& event) {
  switch (event.kind) {
    case CellEvent::kOut:
    case CellEvent::kErr: {
      const auto now = std::chrono::system_clock::now().time_since_epoch();
      return Line({{"type", event.kind == CellEvent::kOut ? "stdout" : "stderr"},
                   {"text", event.text},
                   {"timestamp", std::chrono::duration_cast<std::chrono::nanoseconds>(now).count()}});
    }
    case CellEvent::kResult:
      return Line(Typed("result", event.value));
    case CellEvent::kError:
      return Line(Typed("error", event.value));
    case CellEvent::kDone:
      break;
  }
  return Line({{"type", "number_of_executions"}, {"execution_count", event.count}}) +
         Line({{"type", "end_of_execution"}});
}

absl::Status CheckLanguage(const value& request) {
  INGOT_ASSIGN_OR_RETURN(const std::string language, TextField(request, "language", "python"));
  if (language == "python") return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("'language' is '", language, "': only python is supported"));
}

object ContextJson(const std::string& name, const Interpreter& interpreter, const Session& session) {
  return {{"id", name.empty() ? kFirst : name},
          {"language", "python"},
          {"cwd", interpreter.folder().empty() ? session.folder() : interpreter.folder()}};
}

absl::StatusOr<std::shared_ptr<Interpreter>> InterpreterOf(HeldSession& held, const std::string& name) {
  if (auto found = held.FindInterpreter(name == kFirst ? "" : name)) return found;
  return absl::NotFoundError(absl::StrCat("unknown context '", name, "'"));
}

absl::StatusOr<std::shared_ptr<Feed>> Execute(std::shared_ptr<HeldSession> held, const std::string& body,
                                              std::function<void()> wake) {
  INGOT_ASSIGN_OR_RETURN(const value request, ParseObject(body));
  INGOT_RETURN_IF_ERROR(CheckLanguage(request));
  INGOT_ASSIGN_OR_RETURN(const std::string name, TextField(request, "context_id", ""));
  INGOT_ASSIGN_OR_RETURN(const std::shared_ptr<Interpreter> interpreter, InterpreterOf(*held, name));
  CellRequest cell;
  INGOT_ASSIGN_OR_RETURN(cell.code, TextField(request, "code", ""));
  INGOT_ASSIGN_OR_RETURN(cell.env, MapField(request, "env_vars"));
  CellWords words{.head = {.content_type = "application/x-ndjson"}, .event = LineOf};
  return MakeCellFeed(std::move(held), interpreter, std::move(cell), std::move(words), std::move(wake));
}

absl::StatusOr<object> AddContext(HeldSession& held, const std::string& body) {
  INGOT_ASSIGN_OR_RETURN(const value request, ParseObject(body));
  INGOT_RETURN_IF_ERROR(CheckLanguage(request));
  INGOT_ASSIGN_OR_RETURN(const std::string folder, TextField(request, "cwd", ""));
  const std::string name = held.AddInterpreter(folder.empty() ? "" : held.session->Absolute(folder));
  if (name.empty())
    return absl::ResourceExhaustedError("the sandbox has reached its limit of contexts: delete one first");
  return ContextJson(name, *held.FindInterpreter(name), *held.session);
}

http::Reply AnswerContexts(SessionStore& store, HeldSession& held, const std::string& method,
                           const std::vector<std::string>& parts, const std::string& body) {
  if (parts.size() == 1 && method == "GET") {
    held.FindInterpreter("");
    array list;
    for (const auto& [name, interpreter] : held.Interpreters())
      list.push_back(ContextJson(name, *interpreter, *held.session));
    return JsonReply(200, list);
  }
  if (parts.size() == 1 && method == "POST") {
    const auto added = AddContext(held, body);
    if (!added.ok()) return E2bError(added.status());
    http::Reply reply = JsonReply(200, *added);
    reply.unread = [&store, id = held.id, name = std::string(added->at("id").get_string())] {
      if (const auto found = store.Find(id)) found->RemoveInterpreter(name);
    };
    return reply;
  }
  const auto interpreter = InterpreterOf(held, parts.size() > 1 ? parts[1] : "");
  if (!interpreter.ok()) return E2bError(interpreter.status());
  if (parts.size() == 3 && parts[2] == "restart" && method == "POST") {
    (*interpreter)->Restart();
    return JsonReply(200, object());
  }
  if (parts.size() == 2 && method == "DELETE") {
    held.RemoveInterpreter(parts[1] == kFirst ? "" : parts[1]);
    return {.status = 204, .content_type = "application/json", .fields = {}, .body = ""};
  }
  return E2bError(absl::UnimplementedError(absl::StrCat(method, " is not supported for this path of contexts")));
}

}  // namespace

std::variant<http::Reply, std::shared_ptr<Feed>> E2bCode::Open(const http::RequestHead& head, const std::string& path,
                                                               const std::string& body, std::function<void()> wake) {
  auto held = FindSandbox(store_, head);
  if (!held.ok()) return E2bError(held.status());
  if (path != "/execute") {
    const std::vector<std::string> parts = absl::StrSplit(path, '/', absl::SkipEmpty());
    return AnswerContexts(store_, **held, head.method, parts, body);
  }
  if (head.method != "POST") return E2bError(absl::InvalidArgumentError("use POST to execute code"));
  auto feed = Execute(*std::move(held), body, std::move(wake));
  if (!feed.ok()) return E2bError(feed.status());
  return *std::move(feed);
}

}  // namespace ingot::execution
