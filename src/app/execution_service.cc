#include "app/execution_service.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "agents/episode_run.h"
#include "base/random.h"
#include "base/secret.h"

namespace ingot::app {
namespace {

using base::json::object;
using base::json::value;

constexpr std::string_view kPrefix = "/ingot/v1/";
constexpr size_t kMostCases = 1000;
constexpr double kLongestSeconds = 3600;
constexpr int64_t kLargestFile = 64 << 20;
constexpr int64_t kLargestBody = 64 << 20;

http::Reply Json(int status, const value& json) { return {.status = status, .body = base::PrintJson(json)}; }

http::Reply Error(int status, const std::string& code, const std::string& message) {
  return Json(status, object{{"error", object{{"code", code}, {"message", message}}}});
}

http::Reply ErrorOf(const absl::Status& status) {
  const std::string message(status.message());
  if (absl::IsInvalidArgument(status)) return Error(400, "invalid_request", message);
  if (absl::IsNotFound(status)) return Error(404, "not_found", message);
  if (absl::IsResourceExhausted(status)) return Error(429, "too_many", message);
  return Error(503, "sandbox_failed", message);
}

http::Reply ReplyOf(const absl::StatusOr<object>& answer) {
  return answer.ok() ? Json(200, *answer) : ErrorOf(answer.status());
}

std::string_view EndingName(sandbox::Ending ending) {
  switch (ending) {
    case sandbox::Ending::kExited:
      return "exited";
    case sandbox::Ending::kSignalled:
      return "signalled";
    case sandbox::Ending::kTimedOut:
      return "timeout";
    case sandbox::Ending::kOutputOverflow:
      return "output_overflow";
    case sandbox::Ending::kDiskFull:
      return "disk_full";
    case sandbox::Ending::kCancelled:
      return "cancelled";
  }
  return "exited";
}

object CaseOf(const sandbox::Outcome& outcome) {
  return {{"stdout", agents::ValidUtf8(outcome.out)},
          {"stderr", agents::ValidUtf8(outcome.err)},
          {"ending", std::string(EndingName(outcome.ending))},
          {"exit_code", outcome.exit_code},
          {"signal", outcome.signal},
          {"wall_s", std::chrono::duration<double>(outcome.wall).count()},
          {"cpu_s", std::chrono::duration<double>(outcome.cpu).count()},
          {"max_rss_bytes", outcome.max_rss_bytes}};
}

absl::StatusOr<std::string> TextOf(const value& json, const std::string& name) {
  if (json.is_string()) return std::string(json.get_string());
  return absl::InvalidArgumentError(absl::StrCat("'", name, "' must be a string"));
}

absl::StatusOr<std::map<std::string, std::string>> MapOf(const value& request, const char* name) {
  std::map<std::string, std::string> map;
  const value* const found = base::Find(request, name);
  if (found == nullptr) return map;
  if (!found->is_object()) return absl::InvalidArgumentError(absl::StrCat("'", name, "' must be an object of strings"));
  for (const auto& [key, text] : found->get_object()) {
    INGOT_ASSIGN_OR_RETURN(map[std::string(key)], TextOf(text, absl::StrCat(name, ".", std::string(key))));
  }
  return map;
}

absl::StatusOr<double> LimitOf(const value& request, const char* name, double otherwise, double most) {
  const value* const limits = base::Find(request, "limits");
  const value* const found = limits == nullptr ? nullptr : base::Find(*limits, name);
  if (found == nullptr) return otherwise;
  const double number = found->is_number() ? found->to_number<double>() : -1;
  if (number > 0 && number <= most) return number;
  return absl::InvalidArgumentError(absl::StrCat("'limits.", name, "' must be a number above 0, at most ", most));
}

absl::StatusOr<sandbox::Limits> LimitsOf(const value& request) {
  sandbox::Limits limits;
  INGOT_ASSIGN_OR_RETURN(const double wall, LimitOf(request, "wall_s", 10, kLongestSeconds));
  INGOT_ASSIGN_OR_RETURN(const double output, LimitOf(request, "output_bytes", 1 << 20, 16 << 20));
  INGOT_ASSIGN_OR_RETURN(const double memory, LimitOf(request, "memory_bytes", 0, 1e15));
  INGOT_ASSIGN_OR_RETURN(const double cpu, LimitOf(request, "cpu_s", 0, kLongestSeconds));
  limits.wall_time = std::chrono::nanoseconds(static_cast<int64_t>(wall * 1e9));
  limits.output_bytes = static_cast<int64_t>(output);
  limits.memory_bytes = static_cast<int64_t>(memory);
  limits.cpu_seconds = static_cast<int64_t>(cpu + 0.999);
  return limits;
}

// The command of a request; code becomes a file of the room.
absl::StatusOr<std::vector<std::string>> CommandOf(sandbox::Room& room, const value& request) {
  if (const value* const command = base::Find(request, "command"); command != nullptr) {
    std::vector<std::string> argv;
    if (!command->is_array() || command->get_array().empty()) {
      return absl::InvalidArgumentError("'command' must be a list of strings that is not empty");
    }
    for (const value& word : command->get_array()) {
      INGOT_ASSIGN_OR_RETURN(std::string text, TextOf(word, "command"));
      argv.push_back(std::move(text));
    }
    return argv;
  }
  const value *const language = base::Find(request, "language"), *const code = base::Find(request, "code");
  if (language == nullptr || code == nullptr) {
    return absl::InvalidArgumentError("a request needs 'language' and 'code', or 'command'");
  }
  INGOT_ASSIGN_OR_RETURN(const std::string name, TextOf(*language, "language"));
  INGOT_ASSIGN_OR_RETURN(const std::string text, TextOf(*code, "code"));
  if (name != "python" && name != "shell") {
    return absl::InvalidArgumentError(
        absl::StrCat("'language' is '", name, "': python or shell; others run as 'command'"));
  }
  const std::string file = name == "python" ? "main.py" : "main.sh";
  INGOT_RETURN_IF_ERROR(room.WriteFile(file, text));
  return std::vector<std::string>{name == "python" ? "python3" : "sh", file};
}

}  // namespace

ExecutionService::ExecutionService(std::unique_ptr<sandbox::Substrate> substrate, ExecutionOptions options)
    : substrate_(std::move(substrate)),
      options_(std::move(options)),
      images_(options_.images),
      threads_({.name = "execution", .threads = options_.slots, .max_queued = static_cast<size_t>(options_.slots)}) {}

ExecutionService::~ExecutionService() { threads_.Shutdown(); }

http::Opening ExecutionService::Head(http::RequestHead head) {
  if (head.target == "/health") {
    const std::string rung(sandbox::RungName(substrate_->grant().rung));
    return {.exchange = http::MakeExchange([rung](const std::string&) { return Json(200, object{{"rung", rung}}); })};
  }
  if (!options_.key.empty() && !base::SameSecret(head.Key(), options_.key)) {
    return {.exchange = nullptr,
            .refusal = Error(401, "invalid_key", "show the service's key as Authorization: Bearer")};
  }
  if (!head.target.starts_with(kPrefix)) {
    return {.exchange = nullptr,
            .refusal = Error(404, "not_found", "there is /ingot/v1/execute and /ingot/v1/sessions")};
  }
  http::Work work{
      .post = [this](std::function<void()> job) { return threads_.TryPost(std::move(job)).ok(); },
      .answer = [this, head](const std::string& body) { return Answer(head, body); },
      .busy = [] { return Error(429, "too_many", "all slots are taken, and as many requests wait: try again"); }};
  return {.exchange = http::MakeExchange(std::move(work)), .refusal = {}, .max_body_bytes = kLargestBody};
}

http::Reply ExecutionService::Answer(const http::RequestHead& head, const std::string& body) {
  const std::string path = head.target.substr(kPrefix.size());
  if (path == "execute" && head.method == "POST") return ReplyOf(Execute(body));
  if (path == "sessions" && head.method == "POST") return ReplyOf(OpenSession());
  if (path.starts_with("sessions/")) return AnswerSession(head.method, path.substr(9), body);
  return Error(404, "not_found", absl::StrCat("there is no ", head.method, " ", head.target));
}

absl::StatusOr<object> ExecutionService::Execute(const std::string& body) {
  INGOT_ASSIGN_OR_RETURN(const value request, base::ParseJson(body));
  sandbox::Image image;
  sandbox::RoomOptions options;
  if (const value* const source = base::Find(request, "image"); source != nullptr) {
    INGOT_ASSIGN_OR_RETURN(const std::string name, TextOf(*source, "image"));
    INGOT_ASSIGN_OR_RETURN(image, images_.Resolve(name));
    options.image = image.rootfs;
  }
  INGOT_ASSIGN_OR_RETURN(const std::unique_ptr<sandbox::Room> room, substrate_->Prepare(options));
  return ExecuteIn(*room, request, image);
}

absl::StatusOr<object> ExecutionService::ExecuteIn(sandbox::Room& room, const value& request,
                                                   const sandbox::Image& image) const {
  if (!request.is_object()) return absl::InvalidArgumentError("a request is a JSON object");
  INGOT_ASSIGN_OR_RETURN(const sandbox::Limits limits, LimitsOf(request));
  INGOT_ASSIGN_OR_RETURN(const auto files, MapOf(request, "files"));
  for (const auto& [path, text] : files) INGOT_RETURN_IF_ERROR(base::Annotate(room.WriteFile(path, text), "files"));
  sandbox::Command command{.argv = {}, .env = image.env, .working_dir = room.work(), .stdin_text = ""};
  command.env.emplace("PATH", "/usr/local/bin:/usr/bin:/bin");
  command.env["HOME"] = room.home();
  command.env["TMPDIR"] = room.tmp();
  INGOT_ASSIGN_OR_RETURN(auto env, MapOf(request, "env"));
  for (auto& [name, text] : env) command.env[name] = std::move(text);
  INGOT_ASSIGN_OR_RETURN(command.argv, CommandOf(room, request));
  base::json::array cases = {object{{"stdin", ""}}}, results;
  if (const value* const given = base::Find(request, "cases"); given != nullptr) {
    if (!given->is_array() || given->get_array().empty() || given->get_array().size() > kMostCases) {
      return absl::InvalidArgumentError(absl::StrCat("'cases' must be a list of 1 to ", kMostCases, " objects"));
    }
    cases = given->get_array();
  }
  for (const value& each : cases) {
    const value* const in = base::Find(each, "stdin");
    command.stdin_text.clear();
    if (in != nullptr) {
      INGOT_ASSIGN_OR_RETURN(command.stdin_text, TextOf(*in, "stdin"));
    }
    INGOT_ASSIGN_OR_RETURN(const sandbox::Outcome outcome, room.Run(command, limits, nullptr));
    results.push_back(CaseOf(outcome));
  }
  return object{{"cases", std::move(results)}};
}

absl::StatusOr<object> ExecutionService::OpenSession() {
  RemoveIdle();
  {
    base::MutexLock lock(mu_);
    if (std::ssize(sessions_) >= options_.sessions) {
      return absl::ResourceExhaustedError(absl::StrCat(options_.sessions, " sessions are open: end one first"));
    }
  }
  auto session = std::make_shared<Session>();
  {
    base::MutexLock lock(session->mu);
    INGOT_ASSIGN_OR_RETURN(session->room, substrate_->Prepare());
  }
  const std::string id = base::RandomHex(16);
  base::MutexLock lock(mu_);
  session->used = std::chrono::steady_clock::now();
  sessions_[id] = std::move(session);
  return object{{"id", id}};
}

absl::StatusOr<std::shared_ptr<ExecutionService::Session>> ExecutionService::Find(const std::string& id) {
  base::MutexLock lock(mu_);
  const auto found = sessions_.find(id);
  if (found == sessions_.end())
    return absl::NotFoundError("there is no such session: it ended, or nobody used it for too long");
  found->second->used = std::chrono::steady_clock::now();
  return found->second;
}

void ExecutionService::RemoveIdle() {
  std::vector<std::shared_ptr<Session>> removed;  // their rooms end without the lock
  base::MutexLock lock(mu_);
  const auto oldest = std::chrono::steady_clock::now() - options_.session_idle;
  for (auto it = sessions_.begin(); it != sessions_.end();) {
    const bool is_idle = it->second->used < oldest && it->second.use_count() == 1;
    if (is_idle) removed.push_back(it->second);
    it = is_idle ? sessions_.erase(it) : std::next(it);
  }
}

http::Reply ExecutionService::AnswerSession(const std::string& method, const std::string& rest,
                                            const std::string& body) {
  const std::vector<std::string> parts = absl::StrSplit(rest, absl::MaxSplits('/', 2));
  const auto session = Find(parts[0]);
  if (!session.ok()) return ErrorOf(session.status());
  if (method == "DELETE" && parts.size() == 1) {
    base::MutexLock lock(mu_);
    sessions_.erase(parts[0]);
    return Json(200, object{});
  }
  base::MutexLock lock((*session)->mu);
  if (method == "POST" && parts.size() == 2 && parts[1] == "execute") {
    const auto request = base::ParseJson(body);
    if (!request.ok()) return ErrorOf(request.status());
    return ReplyOf(ExecuteIn(*(*session)->room, *request, sandbox::Image()));
  }
  if (method == "GET" && parts.size() == 3 && parts[1] == "files") {
    auto content = (*session)->room->ReadFile(parts[2], kLargestFile);
    if (!content.ok()) return ErrorOf(content.status());
    return {.status = 200, .content_type = "application/octet-stream", .fields = {}, .body = *std::move(content)};
  }
  return Error(404, "not_found", absl::StrCat("a session has no ", method, " ", rest));
}

}  // namespace ingot::app
