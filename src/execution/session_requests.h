// Implements the service's own API for sessions (service.h). Each function starts its response on one of the session's
// threads, where it may block.
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

// Parses a session request. `most` limits a sandbox's processes and CPUs. The store limits the total memory of all
// sessions.
absl::StatusOr<OpenRequest> OpenRequestOf(const base::json::value& request, const sandbox::GroupLimits& most);

// Returns {"id", "folder", "started_at", "ends_at", "memory_bytes", "programs"}. Does not block.
base::json::object Describe(HeldSession& held);

Answer StreamProgram(std::shared_ptr<HeldSession> held, const base::json::value& request, std::function<void()> wake);
Answer RunCell(std::shared_ptr<HeldSession> held, const std::string& body, std::function<void()> wake);
// Handles GET, PUT, and DELETE for files/PATH.
Answer AnswerFile(std::shared_ptr<HeldSession> held, const std::string& method, const std::string& path,
                  const std::string& body, std::function<void()> wake);

}  // namespace ingot::execution
