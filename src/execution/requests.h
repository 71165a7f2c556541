// JSON of the service's own requests and answers (service.h has the list).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "http/handler.h"
#include "sandbox/groups/control_groups.h"
#include "sandbox/process.h"

namespace ingot::execution {

// "limits" of each program: wall_s, output_bytes, memory_bytes, cpu_s.
absl::StatusOr<sandbox::Limits> LimitsOf(const base::json::value& request);
// "limits" of a sandbox: memory_bytes, processes, cpus. `most`: 0 = the service sets no limit.
absl::StatusOr<sandbox::GroupLimits> TotalsOf(const base::json::value& request, const sandbox::GroupLimits& most);

// The program of a request: `argv`, and a file with the code that the sandbox needs before; "" = none.
struct Code {
  std::vector<std::string> argv;
  std::string file, text;
};
absl::StatusOr<Code> CodeOf(const base::json::value& request);

// The stdin of each case, which is {"stdin": TEXT} or just TEXT; one case without stdin if the request has no "cases".
absl::StatusOr<std::vector<std::string>> CasesOf(const base::json::value& request);

// The image that a request names; "" = none. A client may name registries, digests and archives in the service's
// folders, but neither other folders of the machine nor builds on it.
absl::StatusOr<std::string> ImageOf(const base::json::value& request);

std::string_view EndingName(sandbox::Ending ending);
// The ending of a program in a sandbox: "memory_full" also if the kernel killed another of its processes than the first.
// `memory_kills`: as in sandbox::Outcome.
std::string_view EndingOf(sandbox::Ending ending, int64_t memory_kills);
// {"stdout", "stderr", "ending", "exit_code", "signal", "wall_s", "cpu_s", "max_rss_bytes"}
base::json::object CaseOf(const sandbox::Outcome& outcome, std::string_view ending);

http::Reply JsonReply(int status, const base::json::value& json);
// {"error": {"code", "message"}}
http::Reply ErrorReply(int status, const std::string& code, const std::string& message);
http::Reply ErrorReply(const absl::Status& status);
http::Reply ReplyOf(const absl::StatusOr<base::json::object>& answer);

}  // namespace ingot::execution
