#include "execution/requests.h"

#include <utility>

#include "base/clock.h"
#include "base/printable.h"
#include "base/utf8.h"
#include "execution/fields.h"

namespace ingot::execution {
namespace {

using base::json::object;
using base::json::value;

constexpr size_t kMaxCases = 1000;
constexpr double kLongestSeconds = 3600;
// A sandbox with less memory, fewer processes, or less CPU time may fail to start.
constexpr Range kMemory{.least = 16 << 20, .most = 1e15, .is_whole = true};
constexpr double kMinProcesses = 8;
constexpr double kMinCpus = 0.01;

double Seconds(std::chrono::nanoseconds time) { return std::chrono::duration<double>(time).count(); }

}  // namespace

absl::StatusOr<sandbox::Limits> LimitsOf(const value& request) {
  sandbox::Limits limits;
  INGOT_ASSIGN_OR_RETURN(const double wall, LimitField(request, "wall_s", 10, {.most = kLongestSeconds}));
  INGOT_ASSIGN_OR_RETURN(const double output, LimitField(request, "output_bytes", 1 << 20,
                                                         {.least = 1, .most = 16 << 20, .is_whole = true}));
  INGOT_ASSIGN_OR_RETURN(const double memory, LimitField(request, "memory_bytes", 0, kMemory));
  INGOT_ASSIGN_OR_RETURN(const double cpu, LimitField(request, "cpu_s", 0, {.most = kLongestSeconds}));
  limits.wall_time = base::FromSeconds(wall);
  limits.output_bytes = static_cast<int64_t>(output);
  limits.memory_bytes = static_cast<int64_t>(memory);
  limits.cpu_seconds = static_cast<int64_t>(cpu + 0.999);
  return limits;
}

absl::StatusOr<sandbox::GroupLimits> TotalsOf(const value& request, const sandbox::GroupLimits& most) {
  sandbox::GroupLimits totals;
  Range memory_range = kMemory;
  if (most.memory_bytes > 0) memory_range.most = static_cast<double>(most.memory_bytes);
  INGOT_ASSIGN_OR_RETURN(const double memory, LimitField(request, "memory_bytes", 0, memory_range));
  const double most_processes = most.processes > 0 ? static_cast<double>(most.processes) : 1e6;
  INGOT_ASSIGN_OR_RETURN(
      const double processes,
      LimitField(request, "processes", 0, {.least = kMinProcesses, .most = most_processes, .is_whole = true}));
  const double most_cpus = most.cpus > 0 ? most.cpus : 1e6;
  INGOT_ASSIGN_OR_RETURN(totals.cpus, LimitField(request, "cpus", 0, {.least = kMinCpus, .most = most_cpus}));
  totals.memory_bytes = static_cast<int64_t>(memory);
  totals.processes = static_cast<int64_t>(processes);
  return totals;
}

absl::StatusOr<Code> CodeOf(const value& request) {
  Code code;
  const auto given = [&request](const char* name) {
    const value* const found = base::Find(request, name);
    return found == nullptr || found->is_null() ? nullptr : found;
  };
  const value *const language = given("language"), *const text = given("code");
  if (const value* const command = given("command"); command != nullptr) {
    if (!command->is_array() || command->get_array().empty())
      return WrongType("command", *command, "a nonempty list of strings");
    if (language != nullptr || text != nullptr)
      return absl::InvalidArgumentError("a request has either 'command' or 'language' and 'code', not both");
    for (const value& word : command->get_array()) {
      const size_t at = code.argv.size();
      INGOT_ASSIGN_OR_RETURN(std::string argument, TextOf(word, absl::StrCat("command[", at, "]")));
      code.argv.push_back(std::move(argument));
    }
    return code;
  }
  if (language == nullptr || text == nullptr)
    return absl::InvalidArgumentError("a request needs 'language' and 'code', or 'command'");
  INGOT_ASSIGN_OR_RETURN(const std::string name, TextOf(*language, "language"));
  INGOT_ASSIGN_OR_RETURN(code.text, TextOf(*text, "code"));
  if (name != "python" && name != "shell") {
    return absl::InvalidArgumentError(
        absl::StrCat("'language' is '", name, "': use python or shell; run other programs as 'command'"));
  }
  code.file = name == "python" ? "main.py" : "main.sh";
  code.argv = {name == "python" ? "python3" : "sh", code.file};
  return code;
}

absl::StatusOr<std::vector<std::string>> CasesOf(const value& request) {
  const value* const given = base::Find(request, "cases");
  if (given == nullptr || given->is_null()) return std::vector<std::string>{""};
  if (!given->is_array()) return WrongType("cases", *given, R"(a list of {"stdin": TEXT} or of strings)");
  const size_t count = given->get_array().size();
  if (count == 0 || count > kMaxCases)
    return absl::InvalidArgumentError(
        absl::StrCat("'cases' has ", count, " cases, but 1 to ", kMaxCases, " are allowed"));
  std::vector<std::string> cases;
  for (const value& each : given->get_array()) {
    const std::string name = absl::StrCat("cases[", cases.size(), "]");
    if (each.is_string()) {
      cases.emplace_back(each.get_string());
      continue;
    }
    if (!each.is_object()) return WrongType(name, each, R"({"stdin": TEXT} or a string)");
    INGOT_RETURN_IF_ERROR(CheckKeys(each, {.kind = name, .request = {"stdin"}, .limits = {}}));
    absl::StatusOr<std::string> text = TextField(each, "stdin", "");
    if (!text.ok()) return base::Annotate(text.status(), name);
    cases.push_back(*std::move(text));
  }
  return cases;
}

absl::StatusOr<std::string> ImageOf(const value& request) {
  INGOT_ASSIGN_OR_RETURN(std::string image, TextField(request, "image", ""));
  if (!image.starts_with("folder:") && !image.starts_with("dockerfile:")) return image;
  return absl::InvalidArgumentError(absl::StrCat(
      "the image '", image, "' is a folder on this machine: unpack it with `ingot image`, and use its sha256:HEX"));
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
    case sandbox::Ending::kMemoryFull:
      return "memory_full";
    case sandbox::Ending::kDiskFull:
      return "disk_full";
    case sandbox::Ending::kNoSpace:
      return "no_space";
    case sandbox::Ending::kCancelled:
      return "cancelled";
  }
  return "exited";
}

std::string_view EndingOf(sandbox::Ending ending, int64_t memory_kills) {
  const bool lost_one = ending == sandbox::Ending::kExited && memory_kills > 0;
  return EndingName(lost_one ? sandbox::Ending::kMemoryFull : ending);
}

object CaseOf(const sandbox::Outcome& outcome, std::string_view ending) {
  return {{"stdout", base::ToUtf8(outcome.out)},
          {"stderr", base::ToUtf8(outcome.err)},
          {"ending", std::string(ending)},
          {"exit_code", outcome.exit_code},
          {"signal", outcome.signal},
          {"wall_s", Seconds(outcome.wall)},
          {"cpu_s", Seconds(outcome.cpu)},
          {"max_rss_bytes", outcome.max_rss_bytes}};
}

http::Reply JsonReply(int status, const value& json) { return {.status = status, .body = base::PrintJson(json)}; }

http::Reply ErrorReply(int status, const std::string& code, const std::string& message) {
  return JsonReply(status,
                   object{{"error", object{{"code", code}, {"message", base::CutMessage(base::ToUtf8(message))}}}});
}

http::Reply ErrorReply(const absl::Status& status) {
  const std::string message(status.message());
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kPermissionDenied:
      return ErrorReply(400, "invalid_request", message);
    case absl::StatusCode::kNotFound:
      return ErrorReply(404, "not_found", message);
    case absl::StatusCode::kAlreadyExists:
      return ErrorReply(409, "exists", message);
    case absl::StatusCode::kResourceExhausted:
      return ErrorReply(429, "too_many", message);
    default:
      return ErrorReply(503, "sandbox_failed", message);
  }
}

http::Reply ReplyOf(const absl::StatusOr<object>& answer) {
  return answer.ok() ? JsonReply(200, *answer) : ErrorReply(answer.status());
}

}  // namespace ingot::execution
