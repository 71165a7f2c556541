#include "app/run_status.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "app/role_addresses.h"
#include "base/log.h"
#include "datapool/grpc_client.h"
#include "proto/gateway.grpc.pb.h"
#include "proto/grpc_status.h"
#include "rollout/grpc_client.h"
#include "scheduler/grpc_client.h"

namespace ingot::app {
namespace {

constexpr std::chrono::milliseconds kDeadline(2000);  // of one role

template <typename T, typename Format>
RoleStatus StateOf(std::string name, std::string address, const absl::StatusOr<T>& status, Format format) {
  if (!status.ok()) return {std::move(name), std::move(address), status.status()};
  return {std::move(name), std::move(address), format(*status)};
}

absl::StatusOr<v1::GatewayStatusResponse> GatewayStatus(const std::string& address, const RpcAccess& access) {
  const auto stub = v1::Gateway::NewStub(Connect(address, access));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kDeadline);
  v1::GatewayStatusResponse response;
  INGOT_RETURN_IF_ERROR(v1::FromGrpc(stub->Status(&context, v1::GatewayStatusRequest(), &response)));
  return response;
}

std::string Describe(const v1::PoolStatusResponse& s) {
  return fmt::format("{} episodes, {} calls, {} tokens stored ({} recorded), journal {}", s.episodes(), s.calls(),
                     s.segment_tokens(), s.recorded_tokens(), s.journal_end());
}

std::string Describe(const v1::SchedulerStatusResponse& s) {
  return fmt::format("step {}{}, groups {}/{} from {}, {} episodes running, {} dropped, {} failed", s.next_step(),
                     s.finished() ? " (all fed)" : "", s.stats().admitted_unreleased(), s.stats().budget(),
                     s.stats().head(), s.stats().running_episodes(), s.stats().dropped(), s.stats().failed());
}

std::string Describe(const v1::EngineStatusResponse& s) {
  return fmt::format("version {}, {} running, {} waiting, KV {}/{} blocks, {} tokens sampled, busy {:.0f}%",
                     s.version(), s.running(), s.waiting(), s.kv_blocks_used(), s.kv_blocks_total(), s.sampled_tokens(),
                     100 * s.busy_seconds() / std::max(s.alive_seconds(), 1e-9));
}

std::string Describe(const v1::GatewayStatusResponse& s) {
  int64_t forks = 0;
  for (const auto& [cause, count] : s.forks()) forks += count;
  return fmt::format("{} open episodes, {} calls ({} active, {} spliced, {} forks)", s.open_episodes(), s.calls(),
                     s.active_calls(), s.spliced_calls(), forks);
}

}  // namespace

std::vector<RoleStatus> AskRoles(const ClusterOptions& cluster, const RpcAccess& access) {
  const auto describe = [](const auto& status) { return Describe(status); };
  std::vector<RoleStatus> roles;
  const std::string pool = DataPoolAddress(cluster), scheduler = SchedulerAddress(cluster);
  roles.push_back(
      StateOf("datapool", pool, datapool::NewGrpcClient(Connect(pool, access), kDeadline)->Status(), describe));
  roles.push_back(StateOf("scheduler", scheduler,
                          scheduler::NewGrpcClient(Connect(scheduler, access), kDeadline)->Status(), describe));
  for (int i = 0; i < cluster.rollout_engines; ++i) {
    const std::string engine = RolloutAddress(cluster, i);
    roles.push_back(StateOf(absl::StrCat("rollout-", i), engine,
                            rollout::NewGrpcClient(Connect(engine, access))->Status(), describe));
  }
  const std::string gateway = GatewayAddress(cluster);
  roles.push_back(StateOf("gateway", gateway, GatewayStatus(gateway, access), describe));
  return roles;
}

}  // namespace ingot::app
