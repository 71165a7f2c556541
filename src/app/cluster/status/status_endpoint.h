// Serves `ingot status` from the launcher. Roles require the run's token, which only the launcher has, in memory. So
// the command asks the launcher through a Unix socket that only this user can open.
//
//   ingot status ──RUN/sockets/launch.sock──▶ ingot launch ──rpcs with the token──▶ every role
//   ingot status, with cluster.token_file ─────────────────────────────────────────▶ every role
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "app/cluster/status/role_waits.h"
#include "base/executor.h"
#include "base/status.h"
#include "http/server.h"

namespace ingot::app {

// The status of one role.
struct RoleStatus {
  std::string name, address;
  absl::StatusOr<std::string> state;  // one line of text; an error = the role was not reached
  std::string waits = {};             // what the role waits for; empty = nothing
  std::string computes = {};          // its current work (base/work.h); empty = none, or unknown
  int64_t pid = 0;                    // process id on the role's machine; 0 = unknown
};

// Returns one printable line for each role.
std::string FormatRoles(const std::vector<RoleStatus>& roles);
// Returns the roles as a one-line JSON array. Each object has "name", "address", "pid", "state" or "error", "computes",
// and "waits". Fields without a value are omitted.
std::string JsonOfRoles(const std::vector<RoleStatus>& roles);
// Returns the roles, updated with what is known about unresponsive roles. Adds unresponsive roles that are missing.
std::vector<RoleStatus> WithUnresponsive(std::vector<RoleStatus> roles, const std::vector<RoleStatus>& unresponsive);
// Returns the roles with the waits and work of this machine's roles filled in by name. Adds missing roles.
std::vector<RoleStatus> WithWaits(std::vector<RoleStatus> roles, const std::map<std::string, ReportedWaits>& waits);
bool AllAnswer(const std::vector<RoleStatus>& roles);

// Serves GET /status (one line per role) and GET /status.json on a socket file.
class StatusEndpoint final : public http::Handler {
 public:
  // `ask` runs on the endpoint's thread and may block. Returns UNAVAILABLE if the socket cannot be created.
  static absl::StatusOr<std::unique_ptr<StatusEndpoint>> Start(const std::string& path,
                                                               std::function<std::vector<RoleStatus>()> ask);

  // http::Handler
  http::Opening Head(http::RequestHead head) override;

 private:
  explicit StatusEndpoint(std::function<std::vector<RoleStatus>()> ask) : ask_(std::move(ask)) {}

  const std::function<std::vector<RoleStatus>()> ask_;
  base::Executor thread_{{.name = "status", .max_queued = 16}};
  std::unique_ptr<http::Server> server_;  // declared last because it must stop first
};

// The launcher's answer.
struct LaunchedStatus {
  bool all_answer = false;
  std::string lines;  // from FormatRoles or JsonOfRoles
};
// Returns UNAVAILABLE if no launcher listens at `path`, or DEADLINE_EXCEEDED if a launcher listens but does not answer.
absl::StatusOr<LaunchedStatus> AskLauncher(const std::string& path, bool json = false);

}  // namespace ingot::app
