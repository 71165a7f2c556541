// The parts that the roles of a launched run share: the context of a role, its server, its clients and its waits.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "app/cluster/access/grpc_access.h"
#include "app/cluster/access/grpc_server.h"
#include "app/cluster/role_clients.h"
#include "app/cluster/run_registry.h"
#include "app/models/device.h"
#include "app/record/metrics_endpoint.h"
#include "app/run/persist.h"
#include "app/run/run_config.h"
#include "app/run/run_dir.h"
#include "base/executor.h"
#include "base/metrics.h"
#include "base/mutex.h"
#include "base/status.h"
#include "reward/term_parts.h"

namespace ingot::app {

// Long enough for a crashed role to restart: callers wait and retry, and the run does not fail.
inline constexpr std::chrono::milliseconds kRoleDeadline{30000};

// A role's own metrics, from their creation to their end. Thread safe.
class MoreMetrics {
 public:
  void Set(MetricsEndpoint::Text text) {
    base::MutexLock lock(mu_);
    text_ = std::move(text);
  }
  std::string Text() {
    base::MutexLock lock(mu_);
    return text_ ? text_() : "";
  }

 private:
  base::Mutex mu_;
  MetricsEndpoint::Text text_ ABSL_GUARDED_BY(mu_);
};

struct RoleContext {
  const RunConfig& config;
  const RunDir& dir;
  bool resume;
  int index;  // of the engine, or rank of the trainer
  base::Metrics& metrics;
  DeviceChoice device;    // of the roles that compute
  std::string admin_key;  // of the supervisor, to open episodes; empty = any client may
  RpcAccess access;       // to the other roles, and theirs to this one
  RunRegistry* registry;  // null = this role uses no other role
  MoreMetrics& more_metrics;
};

// A role waits for the disk, the registry or another role that it needs, at its start and while it runs.
RetryPolicy RoleRetryPolicy();

// Returns at the signal to stop, or once `over` is true.
void WaitForStop(const std::function<bool()>& over = [] { return false; });

// Serves a role's services, and registers its address. `http`: RolePlace::http.
absl::StatusOr<std::unique_ptr<GrpcServer>> ServeRole(const RoleContext& context, const std::string& role,
                                                      std::vector<std::unique_ptr<grpc::Service>> services,
                                                      const std::string& http = "");

// The pool, at one of the processes that serve it.
std::unique_ptr<datapool::Client> PoolOf(const RoleContext& context);

// The models and servers that reward terms call (assembly.h). Adds the clients of engines and external models that are
// not there, if a term calls models.
absl::StatusOr<reward::TermParts> TermPartsOf(const RoleContext& context, RoleClients& clients);

// A channel connects only while a call waits for it. Callers that fail and pause before a retry do not wait: they would
// find a restarted role many seconds late. This timer waits instead.
base::Timer KeepConnecting(base::Executor& executor, std::vector<v1::RoleChannel> channels);

}  // namespace ingot::app
