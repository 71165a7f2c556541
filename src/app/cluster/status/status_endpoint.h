// The state of a run's roles for `ingot status`, and the launcher's answer to it. Roles answer only to the run's token,
// which the launcher keeps in its memory: so the command asks the launcher, on a socket file of this user.
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

// One role's answer.
struct RoleStatus {
  std::string name, address;
  absl::StatusOr<std::string> state;  // one line of text; an error = the role was not reached
  std::string waits = {};             // what the role waits for; empty = nothing
  std::string computes = {};          // what it computes (base/work.h); empty = nothing, or it is not known
  int64_t pid = 0;                    // of its process on its machine; 0 = not known
};

// A printable line for each role.
std::string FormatRoles(const std::vector<RoleStatus>& roles);
// The roles as one line of JSON, an array with an object for each: "name", "address", "pid", "state" or "error",
// "computes", and "waits". Fields without a value are left out.
std::string JsonOfRoles(const std::vector<RoleStatus>& roles);
// The roles, updated with what is known about silent roles; adds silent roles that are missing.
std::vector<RoleStatus> WithUnresponsive(std::vector<RoleStatus> roles, const std::vector<RoleStatus>& unresponsive);
// The roles, updated with what this machine's roles wait for and compute, by name; adds roles that are missing.
std::vector<RoleStatus> WithWaits(std::vector<RoleStatus> roles, const std::map<std::string, ReportedWaits>& waits);
bool AllAnswer(const std::vector<RoleStatus>& roles);

// Serves GET /status, the roles' lines, and GET /status.json on a socket file.
class StatusEndpoint final : public http::Handler {
 public:
  // `ask` blocks, on a thread of the endpoint. UNAVAILABLE: the file cannot be made.
  static absl::StatusOr<std::unique_ptr<StatusEndpoint>> Start(const std::string& path,
                                                               std::function<std::vector<RoleStatus>()> ask);

  // http::Handler
  http::Opening Head(http::RequestHead head) override;

 private:
  explicit StatusEndpoint(std::function<std::vector<RoleStatus>()> ask) : ask_(std::move(ask)) {}

  const std::function<std::vector<RoleStatus>()> ask_;
  base::Executor thread_{{.name = "status", .max_queued = 16}};
  std::unique_ptr<http::Server> server_;  // last: it is stopped first
};

// The launcher's answer.
struct LaunchedStatus {
  bool all_answer = false;
  std::string lines;  // of FormatRoles, or of JsonOfRoles
};
// UNAVAILABLE: no launcher listens at `path`. DEADLINE_EXCEEDED: a launcher listens but does not answer.
absl::StatusOr<LaunchedStatus> AskLauncher(const std::string& path, bool json = false);

}  // namespace ingot::app
