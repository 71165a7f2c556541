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
  sandbox::GroupLimits totals;     // of a sandbox of its own
  std::string image;               // the same; "" = none
  std::map<std::string, std::string> files, env;
  Code code;
  std::vector<std::string> cases;  // the stdin of each
};

// For a sandbox of its own. `most`: the totals of any sandbox, where 0 is no bound. More memory than it has is cut, as it bounds the
// address space of each process too; more processes and CPUs are refused.
absl::StatusOr<Batch> ParseNewSandboxBatch(const base::json::value& request, const sandbox::GroupLimits& most);
// For a session, whose sandbox has its limits already.
absl::StatusOr<Batch> ParseSessionBatch(const base::json::value& request);

// These block until the last case has ended. CANCELLED: `cancel` was cancelled, which ends the case that runs. Once
// Batch::total is over, the case that runs ends as "total_timeout", and the cases behind it are "not_run".

// In a sandbox of its own, which is removed behind the last case; nothing of a case outlives it but its files.
// `image`: the unpacked one of batch.image, or nothing.
absl::StatusOr<base::json::object> RunInNewSandbox(sandbox::Substrate& substrate, const sandbox::Image& image,
                                                   const Batch& batch, const sandbox::Cancellation& cancel);

// In a session. Daemons of a case go on.
absl::StatusOr<base::json::object> RunInSession(Session& session, const Batch& batch,
                                                const sandbox::Cancellation& cancel);

}  // namespace ingot::execution
