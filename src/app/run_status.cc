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

std::vector<RoleStatus> AskRoles(RunRegistry& registry, const ClusterOptions& cluster, const RpcAccess& access) {
  const auto describe = [](const auto& status) { return Describe(status); };
  const absl::StatusOr<std::vector<RolePlace>> places = registry.Places();
  std::vector<RoleStatus> roles;
  // `ask` is called with the role's address.
  const auto add = [&](const std::string& name, const auto& ask) {
    const auto is_it = [&](const RolePlace& place) { return place.name == name; };
    const auto found = places.ok() ? std::find_if(places->begin(), places->end(), is_it) : decltype(places->begin())();
    if (places.ok() && found != places->end()) {
      roles.push_back(StateOf(name, found->address, ask(found->address), describe));
      if (roles.back().state.ok() && !found->waits.empty()) *roles.back().state += "; waits for " + found->waits;
      return;
    }
    const absl::Status missing =
        places.ok() ? absl::UnavailableError(absl::StrCat("not registered in ", registry.Describe())) : places.status();
    roles.push_back({name, "-", missing});
  };
  for (int i = 0; i < cluster.datapools; ++i) {
    add(RoleName("datapool", i),
        [&](const auto& at) { return datapool::NewGrpcClient(Connect(at, access), kDeadline)->Status(); });
  }
  add("scheduler", [&](const auto& at) { return scheduler::NewGrpcClient(Connect(at, access), kDeadline)->Status(); });
  const auto ask_engine = [&](const auto& at) { return rollout::NewGrpcClient(Connect(at, access))->Status(); };
  for (int i = 0; i < cluster.rollout_engines; ++i) {
    add(RoleName("rollout", i), ask_engine);
  }
  for (const RolePlace& place : places.ok() ? *places : std::vector<RolePlace>()) {
    if (EngineNumber(place.name).value_or(0) >= cluster.rollout_engines) add(place.name, ask_engine);
  }
  for (int i = 0; i < cluster.gateways; ++i) {
    add(RoleName("gateway", i), [&](const auto& at) { return GatewayStatus(at, access); });
  }
  return roles;
}

std::vector<RoleStatus> AskNodes(RunRegistry& registry, const std::vector<NodeGroup>& groups) {
  std::vector<RoleStatus> statuses;
  if (groups.empty()) return statuses;
  const absl::StatusOr<std::vector<NodePlace>> places = registry.Nodes();
  for (const NodeGroup& group : groups) {
    for (int i = 0; i < group.nodes; ++i) {
      const std::string name = absl::StrCat(group.name, "-", i);
      const auto is_it = [&](const NodePlace& place) { return place.name == name; };
      const auto found =
          places.ok() ? std::find_if(places->begin(), places->end(), is_it) : decltype(places->begin())();
      if (!places.ok()) {
        statuses.push_back({name, "-", places.status()});
      } else if (found == places->end()) {
        statuses.push_back({name, "-", absl::UnavailableError("no agent of this node is registered")});
      } else {
        statuses.push_back({name, found->machine, "runs " + found->roles});
      }
    }
  }
  return statuses;
}

}  // namespace ingot::app
