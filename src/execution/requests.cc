#include "execution/requests.h"

#include <utility>

#include "execution/utf8.h"

namespace ingot::execution {
namespace {

using base::json::object;
using base::json::value;

constexpr size_t kMostCases = 1000;
constexpr double kLongestSeconds = 3600;

double Seconds(std::chrono::nanoseconds time) { return std::chrono::duration<double>(time).count(); }

absl::Status WrongType(std::string_view name, const char* type) {
  return absl::InvalidArgumentError(absl::StrCat("'", base::View(name), "' must be ", type));
}

}  // namespace

absl::StatusOr<std::string> TextOf(const value& json, std::string_view name) {
  if (json.is_string()) return std::string(json.get_string());
  return WrongType(name, "a string");
}

absl::StatusOr<std::string> TextField(const value& request, std::string_view name, std::string otherwise) {
  const value* const found = base::Find(request, name);
  return found == nullptr || found->is_null() ? std::move(otherwise) : TextOf(*found, name);
}

absl::StatusOr<std::map<std::string, std::string>> MapField(const value& request, std::string_view name) {
  std::map<std::string, std::string> map;
  const value* const found = base::Find(request, name);
  if (found == nullptr || found->is_null()) return map;
  if (!found->is_object()) return WrongType(name, "an object of strings");
  for (const auto& [key, text] : found->get_object()) {
    INGOT_ASSIGN_OR_RETURN(map[std::string(key)], TextOf(text, absl::StrCat(base::View(name), ".", std::string(key))));
  }
  return map;
}

absl::StatusOr<bool> FlagField(const value& request, std::string_view name) {
  const value* const found = base::Find(request, name);
  if (found == nullptr || found->is_null()) return false;
  if (found->is_bool()) return found->get_bool();
  return WrongType(name, "true or false");
}

absl::StatusOr<double> LimitField(const value& request, std::string_view name, double otherwise, double most) {
  const value* const limits = base::Find(request, "limits");
  const value* const found = limits == nullptr ? nullptr : base::Find(*limits, name);
  if (found == nullptr) return otherwise;
  const double number = found->is_number() ? found->to_number<double>() : -1;
  if (number > 0 && number <= most) return number;
  return absl::InvalidArgumentError(
      absl::StrCat("'limits.", base::View(name), "' must be a number above 0, at most ", most));
}

absl::StatusOr<sandbox::Limits> LimitsOf(const value& request) {
  sandbox::Limits limits;
  INGOT_ASSIGN_OR_RETURN(const double wall, LimitField(request, "wall_s", 10, kLongestSeconds));
  INGOT_ASSIGN_OR_RETURN(const double output, LimitField(request, "output_bytes", 1 << 20, 16 << 20));
  INGOT_ASSIGN_OR_RETURN(const double memory, LimitField(request, "memory_bytes", 0, 1e15));
  INGOT_ASSIGN_OR_RETURN(const double cpu, LimitField(request, "cpu_s", 0, kLongestSeconds));
  limits.wall_time = std::chrono::nanoseconds(static_cast<int64_t>(wall * 1e9));
  limits.output_bytes = static_cast<int64_t>(output);
  limits.memory_bytes = static_cast<int64_t>(memory);
  limits.cpu_seconds = static_cast<int64_t>(cpu + 0.999);
  return limits;
}

absl::StatusOr<value> ParseObject(const std::string& body) {
  if (body.empty()) return object();
  INGOT_ASSIGN_OR_RETURN(value request, base::ParseJson(body));
  if (request.is_object()) return request;
  return absl::InvalidArgumentError("a request is a JSON object");
}

absl::StatusOr<Code> CodeOf(const value& request) {
  Code code;
  if (const value* const command = base::Find(request, "command"); command != nullptr) {
    if (!command->is_array() || command->get_array().empty())
      return absl::InvalidArgumentError("'command' must be a list of strings that is not empty");
    for (const value& word : command->get_array()) {
      INGOT_ASSIGN_OR_RETURN(std::string text, TextOf(word, "command"));
      code.argv.push_back(std::move(text));
    }
    return code;
  }
  const value *const language = base::Find(request, "language"), *const text = base::Find(request, "code");
  if (language == nullptr || text == nullptr)
    return absl::InvalidArgumentError("a request needs 'language' and 'code', or 'command'");
  INGOT_ASSIGN_OR_RETURN(const std::string name, TextOf(*language, "language"));
  INGOT_ASSIGN_OR_RETURN(code.text, TextOf(*text, "code"));
  if (name != "python" && name != "shell") {
    return absl::InvalidArgumentError(
        absl::StrCat("'language' is '", name, "': python or shell; others run as 'command'"));
  }
  code.file = name == "python" ? "main.py" : "main.sh";
  code.argv = {name == "python" ? "python3" : "sh", code.file};
  return code;
}

absl::StatusOr<std::vector<std::string>> CasesOf(const value& request) {
  const value* const given = base::Find(request, "cases");
  if (given == nullptr) return std::vector<std::string>{""};
  if (!given->is_array() || given->get_array().empty() || given->get_array().size() > kMostCases)
    return absl::InvalidArgumentError(absl::StrCat("'cases' must be a list of 1 to ", kMostCases, " objects"));
  std::vector<std::string> cases;
  for (const value& each : given->get_array()) {
    INGOT_ASSIGN_OR_RETURN(std::string text, TextField(each, "stdin", ""));
    cases.push_back(std::move(text));
  }
  return cases;
}

absl::StatusOr<std::string> ImageOf(const value& request) {
  INGOT_ASSIGN_OR_RETURN(std::string image, TextField(request, "image", ""));
  if (!image.starts_with("folder:") && !image.starts_with("dockerfile:")) return image;
  return absl::InvalidArgumentError(absl::StrCat("the image '", image,
                                                 "' is a folder of this machine: unpack it with "
                                                 "`ingot image`, and name its sha256:HEX"));
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
    case sandbox::Ending::kNoSpace:
      return "no_space";
    case sandbox::Ending::kCancelled:
      return "cancelled";
  }
  return "exited";
}

object CaseOf(const sandbox::Outcome& outcome) {
  return {{"stdout", ValidUtf8(outcome.out)},
          {"stderr", ValidUtf8(outcome.err)},
          {"ending", std::string(EndingName(outcome.ending))},
          {"exit_code", outcome.exit_code},
          {"signal", outcome.signal},
          {"wall_s", Seconds(outcome.wall)},
          {"cpu_s", Seconds(outcome.cpu)},
          {"max_rss_bytes", outcome.max_rss_bytes}};
}

http::Reply JsonReply(int status, const value& json) { return {.status = status, .body = base::PrintJson(json)}; }

http::Reply ErrorReply(int status, const std::string& code, const std::string& message) {
  return JsonReply(status, object{{"error", object{{"code", code}, {"message", ValidUtf8(message)}}}});
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
