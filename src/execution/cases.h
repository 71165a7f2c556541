// Handles execute requests that return one complete response. Their cases run one after another.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "execution/requests.h"
#include "execution/session.h"
#include "sandbox/image/image.h"
#include "sandbox/substrate.h"

namespace ingot::execution {

// A validated request.
struct Batch {
  sandbox::Limits limits;          // limits for each case
  std::chrono::nanoseconds total;  // time limit for the entire request, from the time when it gets a slot
  sandbox::GroupLimits totals;     // for a request with its own sandbox
  std::string image;               // for a request with its own sandbox; empty = none
  std::map<std::string, std::string> files, env;
  Code code;
  std::vector<std::string> cases;  // stdin of each case
};

// Parses a request with its own sandbox. `most` has the maximum limits for a sandbox; 0 = no maximum. A higher memory
// limit is reduced, because memory also limits each process's address space. Too many processes or CPUs are rejected.
absl::StatusOr<Batch> ParseNewSandboxBatch(const base::json::value& request, const sandbox::GroupLimits& most);
// Parses a request to a session. The session's sandbox already has limits.
absl::StatusOr<Batch> ParseSessionBatch(const base::json::value& request);

// Block until the last case has ended. Return CANCELLED if `cancel` was canceled, which ends the running case. After
// Batch::total, the running case ends as "total_timeout", and later cases are "not_run".

// Uses a new sandbox and removes it after the last case. Only files persist from one case to the next. `image` is the
// unpacked batch.image, or empty.
absl::StatusOr<base::json::object> RunInNewSandbox(sandbox::Substrate& substrate, const sandbox::Image& image,
                                                   const Batch& batch, const sandbox::Cancellation& cancel);

// Uses a session. Daemons started by a case keep running.
absl::StatusOr<base::json::object> RunInSession(Session& session, const Batch& batch,
                                                const sandbox::Cancellation& cancel);

}  // namespace ingot::execution
