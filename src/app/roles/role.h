// Code shared by a launched run's roles: the context, server, clients, and retries.
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

// Long enough for a crashed role to restart, so callers wait and retry instead of failing the run.
inline constexpr std::chrono::milliseconds kRoleDeadline{30000};

// A role's own metrics, which exist only while the role runs. Thread safe.
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
  int index;  // index of the engine or gateway, or rank of the trainer
  base::Metrics& metrics;
  DeviceChoice device;    // only for roles that compute
  std::string admin_key;  // opens episodes; provided by the supervisor; empty = any client may open episodes
  RpcAccess access;       // for calls to and from other roles
  RunRegistry* registry;  // null = this role calls no other role
  MoreMetrics& more_metrics;
};

// Returns the policy for a role that waits for the disk, the registry, or another role.
RetryPolicy RoleRetryPolicy();

// Blocks until the stop signal or until `over` returns true.
void WaitForStop(const std::function<bool()>& over = [] { return false; });

// Serves a role's services and registers its address. `http` is RolePlace::http.
absl::StatusOr<std::unique_ptr<GrpcServer>> ServeRole(const RoleContext& context, const std::string& role,
                                                      std::vector<std::unique_ptr<grpc::Service>> services,
                                                      const std::string& http = "");

// Returns a pool client that calls one of the processes serving the pool.
std::unique_ptr<datapool::Client> PoolOf(const RoleContext& context);

// Returns the models and servers that reward terms call (assembly.h). If a term calls models, adds missing clients for
// engines and external models to `clients`.
absl::StatusOr<reward::TermParts> TermPartsOf(const RoleContext& context, RoleClients& clients);

// Keeps reconnecting the channels in the background. A gRPC channel only connects while a call waits for it. Without
// this, callers that pause before a retry would notice a restarted role many seconds late.
base::Timer KeepConnecting(base::Executor& executor, std::vector<v1::RoleChannel> channels);

}  // namespace ingot::app
