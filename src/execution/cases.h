// Requests to execute that answer as a whole: their cases run one after another.
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

// A request whose parts are all checked.
struct Batch {
  sandbox::Limits limits;          // of each case
  std::chrono::nanoseconds total;  // of the whole request, from the moment that it has a slot
  sandbox::GroupLimits totals;     // of the request's own sandbox
  std::string image;               // the same; "" = none
  std::map<std::string, std::string> files, env;
  Code code;
  std::vector<std::string> cases;  // the stdin of each
};

// For a request with its own sandbox. `most`: the totals of any sandbox, 0 = no limit. Too much memory is cut to it,
// since memory also limits each process's address space; too many processes or CPUs are rejected.
absl::StatusOr<Batch> ParseNewSandboxBatch(const base::json::value& request, const sandbox::GroupLimits& most);
// For a session, whose sandbox has its limits already.
absl::StatusOr<Batch> ParseSessionBatch(const base::json::value& request);

// These block until the last case has ended. CANCELLED: `cancel` was cancelled, which ends the running case. Once
// Batch::total is over, the running case ends as "total_timeout", and the cases after it are "not_run".

// In a new sandbox, which is removed after the last case; only the files of a case outlive it. `image`: batch.image
// unpacked, or nothing.
absl::StatusOr<base::json::object> RunInNewSandbox(sandbox::Substrate& substrate, const sandbox::Image& image,
                                                   const Batch& batch, const sandbox::Cancellation& cancel);

// In a session. Daemons of a case keep running.
absl::StatusOr<base::json::object> RunInSession(Session& session, const Batch& batch,
                                                const sandbox::Cancellation& cancel);

}  // namespace ingot::execution
