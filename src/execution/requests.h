// Parses the service's own JSON requests and formats its responses. service.h describes both.
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

// Reads the "limits" for each program: wall_s, output_bytes, memory_bytes, and cpu_s.
absl::StatusOr<sandbox::Limits> LimitsOf(const base::json::value& request);
// Reads the "limits" for a sandbox: memory_bytes, processes, and cpus. In `most`, 0 = the service has no limit.
absl::StatusOr<sandbox::GroupLimits> TotalsOf(const base::json::value& request, const sandbox::GroupLimits& most);

// A request's program: `argv`, and a file with code to write to the sandbox first. Empty `file` = no code.
struct Code {
  std::vector<std::string> argv;
  std::string file, text;
};
absl::StatusOr<Code> CodeOf(const base::json::value& request);

// Returns the stdin of each case. A case is {"stdin": TEXT} or TEXT. A request without "cases" has one case with empty
// stdin.
absl::StatusOr<std::vector<std::string>> CasesOf(const base::json::value& request);

// Returns the image in a request; empty = none. Clients may name registries, digests, and archives in the service's
// folders, but not other folders or builds on the machine.
absl::StatusOr<std::string> ImageOf(const base::json::value& request);

std::string_view EndingName(sandbox::Ending ending);
// Returns the ending of a program in a sandbox. It is also "memory_full" if the kernel killed one of its child
// processes. `memory_kills` is as in sandbox::Outcome.
std::string_view EndingOf(sandbox::Ending ending, int64_t memory_kills);
// {"stdout", "stderr", "ending", "exit_code", "signal", "wall_s", "cpu_s", "max_rss_bytes"}
base::json::object CaseOf(const sandbox::Outcome& outcome, std::string_view ending);

http::Reply JsonReply(int status, const base::json::value& json);
// Returns {"error": {"code", "message"}}.
http::Reply ErrorReply(int status, const std::string& code, const std::string& message);
http::Reply ErrorReply(const absl::Status& status);
http::Reply ReplyOf(const absl::StatusOr<base::json::object>& answer);

}  // namespace ingot::execution
