// Requests to execute that answer as a whole: their cases run one after another. Both functions block until the last one has
// ended.
#pragma once

#include <string>

#include "base/json.h"
#include "base/status.h"
#include "execution/session.h"
#include "sandbox/image.h"
#include "sandbox/substrate.h"

namespace ingot::execution {

// In a room of its own, which is removed behind the last case; nothing of a case outlives it but its files.
absl::StatusOr<base::json::object> RunInNewRoom(sandbox::Substrate& substrate, sandbox::ImageStore& images,
                                                const base::json::value& request);

// In a session. Daemons of a case go on.
absl::StatusOr<base::json::object> RunInSession(Session& session, const base::json::value& request);

}  // namespace ingot::execution
