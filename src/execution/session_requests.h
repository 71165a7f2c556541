// Requests of the service's own API to a session (service.h). Each begins its answer on a thread of the session's,
// where it may block.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/json.h"
#include "base/status.h"
#include "execution/feed.h"
#include "execution/store.h"
#include "sandbox/groups/control_groups.h"

namespace ingot::execution {

// A request for a session. `most`: a sandbox's limits of processes and CPUs. The store limits the memory of all
// sessions together.
absl::StatusOr<OpenRequest> OpenRequestOf(const base::json::value& request, const sandbox::GroupLimits& most);

// {"id", "folder", "started_at", "ends_at", "memory_bytes", "programs"}. Does not block.
base::json::object Describe(HeldSession& held);

Answer StreamProgram(std::shared_ptr<HeldSession> held, const base::json::value& request, std::function<void()> wake);
Answer RunCell(std::shared_ptr<HeldSession> held, const std::string& body, std::function<void()> wake);
// GET, PUT or DELETE of files/PATH.
Answer AnswerFile(std::shared_ptr<HeldSession> held, const std::string& method, const std::string& path,
                  const std::string& body, std::function<void()> wake);

}  // namespace ingot::execution
