#include "app/commands/run/node_takeover.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>

namespace ingot::app {
namespace {

bool EnginesMove(const RunConfig& config, const RunRegistry* registry) {
  return registry != nullptr && config.cluster.takeover_s > 0 && config.cluster.takeover_engines > 0;
}

// Adds a node's seats that can move.
void AddSeats(const RunConfig& config, const std::string& group, int number, const RoleSpecs& specs,
              std::vector<Takeover::Seat>& nodes, std::vector<Takeover::Seat>& engines) {
  const absl::StatusOr<std::vector<RoleProcess>> roles = RolesOfNode(config, group, number);
  if (!roles.ok()) return;
  Takeover::Seat node{NodeName(group, number), {}};
  for (const RoleProcess& role : *roles) {
    if (role.role == "trainer") continue;
    RoleSpec spec = specs.Spec(role);
    spec.argv.insert(spec.argv.end(), spec.restart_extra.begin(), spec.restart_extra.end());
    spec.restart_extra.clear();
    if (role.role == "rollout") {
      engines.push_back({spec.name, {std::move(spec)}});
    } else {
      node.roles.push_back(std::move(spec));
    }
  }
  if (!node.roles.empty()) nodes.push_back(std::move(node));
}

}  // namespace

std::string NodeName(const std::string& group, int node) { return absl::StrCat(group, "-", node); }

bool DrivesRun(const std::vector<RoleProcess>& roles) {
  return std::find(roles.begin(), roles.end(), RoleProcess{"trainer", 0}) != roles.end();
}

absl::Status ClaimEngines(const RunConfig& config, RunRegistry* registry, const std::string& node_name,
                          const std::function<void(const std::string& line)>& print, std::vector<RoleProcess>& roles) {
  if (!EnginesMove(config, registry)) return absl::OkStatus();
  absl::Status rejected;
  for (auto role = roles.begin(); role != roles.end();) {
    const absl::Status claimed =
        role->role == "rollout"
            ? registry->ClaimEngine(RoleName(role->role, role->index), registry->ttl() + std::chrono::seconds(3))
            : absl::OkStatus();
    if (!claimed.ok() && !absl::IsAlreadyExists(claimed)) return claimed;
    if (!claimed.ok()) print(absl::StrCat("an engine runs on another node, not here: ", claimed.message()));
    if (!claimed.ok()) rejected = claimed;
    role = claimed.ok() ? role + 1 : roles.erase(role);
  }
  if (!roles.empty() || rejected.ok()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("other nodes have taken over all engines of node ", node_name, ": ", rejected.message()));
}

std::vector<std::unique_ptr<Takeover>> WatchOtherNodes(const RunConfig& config, RunRegistry* registry,
                                                       const std::string& node_name,
                                                       const std::vector<RoleProcess>& roles, const RoleSpecs& specs) {
  std::vector<std::unique_ptr<Takeover>> takeovers;
  if (registry == nullptr || config.cluster.takeover_s <= 0) return takeovers;
  Takeover::Options options;
  options.grace = std::chrono::milliseconds(static_cast<int64_t>(config.cluster.takeover_s * 1e3));
  std::vector<Takeover::Seat> nodes, engines;
  for (const NodeGroup& group : config.cluster.groups) {
    for (int i = 0; i < group.nodes; ++i) {
      if (NodeName(group.name, i) != node_name) AddSeats(config, group.name, i, specs, nodes, engines);
    }
  }
  if (DrivesRun(roles))
    takeovers.push_back(std::make_unique<Takeover>(Seats::Nodes(*registry), std::move(nodes), options));
  const auto is_engine = [](const RoleProcess& role) { return role.role == "rollout"; };
  if (!EnginesMove(config, registry) || std::none_of(roles.begin(), roles.end(), is_engine)) return takeovers;
  options.most = config.cluster.takeover_engines;
  takeovers.push_back(std::make_unique<Takeover>(Seats::Engines(*registry), std::move(engines), options));
  return takeovers;
}

}  // namespace ingot::app
