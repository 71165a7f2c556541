// JSON of the service's own requests and answers (service.h has the list).
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "http/handler.h"
#include "sandbox/process.h"

namespace ingot::execution {

// Fields of an object. INVALID_ARGUMENT names the field that has another type.
absl::StatusOr<std::string> TextOf(const base::json::value& json, std::string_view name);
absl::StatusOr<std::string> TextField(const base::json::value& request, std::string_view name, std::string otherwise);
absl::StatusOr<std::map<std::string, std::string>> MapField(const base::json::value& request, std::string_view name);
absl::StatusOr<bool> FlagField(const base::json::value& request, std::string_view name);
// A number above 0, at most `most`, of the object "limits".
absl::StatusOr<double> LimitField(const base::json::value& request, std::string_view name, double otherwise,
                                  double most);
absl::StatusOr<sandbox::Limits> LimitsOf(const base::json::value& request);

// A body that is an object; "" = an empty one.
absl::StatusOr<base::json::value> ParseObject(const std::string& body);

// The program of a request: `argv`, and a file with the code that the room needs before; "" = none.
struct Code {
  std::vector<std::string> argv;
  std::string file, text;
};
absl::StatusOr<Code> CodeOf(const base::json::value& request);

// The stdin of each case; one without stdin where the request has no "cases".
absl::StatusOr<std::vector<std::string>> CasesOf(const base::json::value& request);

// The image that a request names; "" = none. A client names archives, registries and digests; the machine's folders, and
// builds on it, are not the client's to name.
absl::StatusOr<std::string> ImageOf(const base::json::value& request);

std::string_view EndingName(sandbox::Ending ending);
// {"stdout", "stderr", "ending", "exit_code", "signal", "wall_s", "cpu_s", "max_rss_bytes"}
base::json::object CaseOf(const sandbox::Outcome& outcome);

http::Reply JsonReply(int status, const base::json::value& json);
// {"error": {"code", "message"}}
http::Reply ErrorReply(int status, const std::string& code, const std::string& message);
http::Reply ErrorReply(const absl::Status& status);
http::Reply ReplyOf(const absl::StatusOr<base::json::object>& answer);

}  // namespace ingot::execution
