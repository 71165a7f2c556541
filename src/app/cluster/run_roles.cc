#include "app/cluster/run_roles.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <map>

#include "app/cluster/run_registry.h"
#include "app/terminal/shell_word.h"

namespace ingot::app {
namespace {

std::chrono::milliseconds Milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<int64_t>(seconds * 1e3));
}

// Returns the wave in which a role stops: the roles that drive the run first, then those that they call, and the pool
// last.
int StopWaveOf(std::string_view role) {
  if (role == "agents" || role == "trainer") return 0;
  if (role == "gateway") return 1;
  return role == "datapool" ? 3 : 2;
}

bool StartsAgents(const RunConfig& config) { return !TrainerAlone(config) && !config.agents.recipes.empty(); }

// Returns the number of processes that the run has for a role.
int CountOf(const RunConfig& config, const std::string& role) {
  if (role == "trainer") return config.cluster.trainer_ranks;
  if (TrainerAlone(config)) return 0;
  if (role == "rollout") return config.cluster.rollout_engines;
  if (role == "gateway") return config.cluster.gateways;
  if (role == "datapool") return config.cluster.datapools;
  if (role == "rewards") return config.cluster.rewards_role ? 1 : 0;
  return role == "agents" && !StartsAgents(config) ? 0 : 1;
}

bool Has(const NodeGroup& group, std::string_view role) {
  return std::find(group.roles.begin(), group.roles.end(), role) != group.roles.end();
}

constexpr const char* kStartOrder[] = {"datapool", "rewards", "scheduler", "rollout", "gateway", "trainer", "agents"};

}  // namespace

bool TrainerAlone(const RunConfig& config) { return config.tasks.empty(); }

std::vector<RoleProcess> AllRoles(const RunConfig& config) {
  std::vector<RoleProcess> roles;
  for (const char* role : kStartOrder) {
    for (int i = 0; i < CountOf(config, role); ++i) roles.push_back({role, i});
  }
  return roles;
}

int RanksPerNode(const RunConfig& config) {
  const std::vector<NodeGroup>& groups = config.cluster.groups;
  const auto trains =
      std::find_if(groups.begin(), groups.end(), [](const auto& group) { return Has(group, "trainer"); });
  return config.cluster.trainer_ranks / (trains == groups.end() ? 1 : trains->nodes);
}

int DevicePlaceOf(const RunConfig& config, const RoleProcess& process) {
  const bool trains = process.role == "trainer";
  const std::vector<NodeGroup>& groups = config.cluster.groups;
  if (groups.empty() || IsLoopback(config.cluster.host)) {
    return trains ? process.index : config.cluster.trainer_ranks + process.index;
  }
  if (trains) return process.index % RanksPerNode(config);
  int index = process.index;  // in the groups that are left
  for (const NodeGroup& group : groups) {
    const int engines = Has(group, "rollout") ? group.nodes * group.engines : 0;
    if (index < engines) return (Has(group, "trainer") ? RanksPerNode(config) : 0) + index % group.engines;
    index -= engines;
  }
  return index;
}

bool AgentsApart(const RunConfig& config) {
  const std::vector<NodeGroup>& groups = config.cluster.groups;
  return StartsAgents(config) && !groups.empty() && std::none_of(groups.begin(), groups.end(), [](const auto& group) {
           return Has(group, "agents") && Has(group, "gateway");
         });
}

bool IsLoopback(std::string_view host) { return host == "localhost" || host == "::1" || host.starts_with("127."); }

absl::Status RequireRewardsRole(const RunConfig& config) {
  if (CountOf(config, "rewards") > 0 && config.has_reward_stage()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "this run has no rewards role, because the reward stage runs in the scheduler's process or the reward is only "
      "the outcome; set cluster.rewards_role to true and rewards.terms to the terms");
}

absl::StatusOr<std::vector<RoleProcess>> RolesOfNode(const RunConfig& config, const std::string& group, int node) {
  const std::vector<NodeGroup>& groups = config.cluster.groups;
  int engines = 0, gateways = 0, pools = 0;  // number in the preceding groups
  const auto has = [](const NodeGroup& one, const char* role) {
    return std::find(one.roles.begin(), one.roles.end(), role) != one.roles.end();
  };
  for (const NodeGroup& candidate : groups) {
    if (candidate.name != group) {
      engines += has(candidate, "rollout") ? candidate.nodes * candidate.engines : 0;
      gateways += has(candidate, "gateway") ? candidate.nodes : 0;
      pools += has(candidate, "datapool") ? candidate.nodes : 0;
      continue;
    }
    if (node < 0 || node >= candidate.nodes) {
      return absl::InvalidArgumentError(absl::StrCat("group '", group, "' has ", candidate.nodes,
                                                     " nodes, numbered from 0, but this is node ", node));
    }
    std::vector<RoleProcess> roles;
    for (const RoleProcess& role : AllRoles(config)) {
      if (!has(candidate, role.role.c_str())) continue;
      if (role.role == "gateway" && role.index != gateways + node) continue;
      if (role.role == "datapool" && role.index != pools + node) continue;
      const int first = engines + node * candidate.engines;
      if (role.role == "rollout" && (role.index < first || role.index >= first + candidate.engines)) continue;
      if (role.role == "trainer" && role.index / RanksPerNode(config) != node) continue;
      roles.push_back(role);
    }
    return roles;
  }
  std::string known;
  for (const NodeGroup& candidate : groups) absl::StrAppend(&known, known.empty() ? "" : ", ", candidate.name);
  return absl::NotFoundError(absl::StrCat("cluster.groups has no group '", group,
                                          "': ", known.empty() ? "it is empty" : absl::StrCat("it has ", known)));
}

// Checks a group of `nodes` nodes that has the trainer.
absl::Status CheckTrainers(const ClusterOptions& cluster, int nodes, const std::string& where) {
  if (nodes < 1 || cluster.trainer_ranks % nodes != 0) {
    return absl::InvalidArgumentError(absl::StrCat(where, ": the ", cluster.trainer_ranks,
                                                   " ranks of cluster.trainer_ranks cannot be divided evenly over ",
                                                   nodes, " nodes"));
  }
  if (nodes == 1 || cluster.min_trainer_ranks == cluster.trainer_ranks) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(where,
                                                 ": ranks on several nodes cannot continue after losing one: "
                                                 "set cluster.min_trainer_ranks to ",
                                                 cluster.trainer_ranks));
}

// Agents reach a single gateway directly, and several gateways through a load balancer on the node that drives the run.
absl::Status CheckEntrance(const RunConfig& config) {
  const ClusterOptions& cluster = config.cluster;
  const bool one_machine = IsLoopback(cluster.host);  // one machine that simulates several nodes
  if (one_machine || !IsLoopback(config.http.host) || !config.gateway.public_url.empty()) return absl::OkStatus();
  const bool load_balancer = cluster.gateways > 1;
  for (const NodeGroup& group : cluster.groups) {
    const bool entrance = Has(group, load_balancer ? "trainer" : "gateway");
    const bool agents = StartsAgents(config) && Has(group, "agents") && !entrance;
    const bool gateways = load_balancer && Has(group, "gateway") && (!entrance || group.nodes > 1);
    if (!agents && !gateways) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "cluster.groups ('", group.name, "') has ", agents ? "agents" : "a gateway", " on another node than ",
        load_balancer ? "the load balancer of the gateways" : "the gateway", ", and http.host is ", config.http.host,
        ", which only its own machine can reach: set http.host=0.0.0.0, with gateway.tls or, on a private network, "
        "gateway.tls.allow_plaintext; or set gateway.public_url to an address for agents"));
  }
  return absl::OkStatus();
}

absl::Status CheckGroups(const RunConfig& config) {
  const std::vector<NodeGroup>& groups = config.cluster.groups;
  if (groups.empty()) return absl::OkStatus();
  std::map<std::string, int> places;  // by role
  std::map<std::string, std::string> group_of;
  for (const NodeGroup& group : groups) {
    const std::string where = absl::StrCat("cluster.groups ('", group.name, "')");
    if (group.name.empty()) return absl::InvalidArgumentError("cluster.groups: each group needs a name");
    for (const std::string& role : group.roles) {
      if (std::find(std::begin(kStartOrder), std::end(kStartOrder), role) == std::end(kStartOrder)) {
        return absl::InvalidArgumentError(absl::StrCat(where, ": '", role, "' is not a role"));
      }
      if (role == "trainer") INGOT_RETURN_IF_ERROR(CheckTrainers(config.cluster, group.nodes, where));
      const bool on_each = role == "gateway" || role == "datapool";
      if (role != "rollout" && role != "trainer" && !on_each && group.nodes > 1) {
        return absl::InvalidArgumentError(
            absl::StrCat(where, ": ", role, " runs on one node, but the group has ", group.nodes));
      }
      places[role] += role == "rollout" ? group.nodes * group.engines : on_each ? group.nodes : 1;
      group_of[role] = group.name;
    }
  }
  for (const char* role : kStartOrder) {
    const int wanted = std::string_view(role) == "trainer" ? 1 : CountOf(config, role);
    // A run without tasks or recipes does not have all the roles that its groups name. The reward stage has its own
    // key.
    const bool idle =
        wanted == 0 && places[role] == 1 && (config.cluster.rewards_role || std::string_view(role) != "rewards");
    if (places[role] == wanted || idle) continue;
    return absl::InvalidArgumentError(absl::StrCat("cluster.groups has room for ", places[role], " of role ", role,
                                                   ", but the run has ", wanted,
                                                   std::string_view(role) == "rollout"    ? " (cluster.rollout_engines)"
                                                   : std::string_view(role) == "gateway"  ? " (cluster.gateways)"
                                                   : std::string_view(role) == "datapool" ? " (cluster.datapools)"
                                                   : std::string_view(role) == "rewards"  ? " (cluster.rewards_role)"
                                                                                          : ""));
  }
  if (StartsAgents(config) && group_of["agents"] != group_of["gateway"] && config.gateway.admin_key_file.empty()) {
    return absl::InvalidArgumentError(
        "cluster.groups puts agents and gateway on different nodes: set gateway.admin_key_file to a file with a key "
        "that opens episodes");
  }
  return CheckEntrance(config);
}

RoleSpec RoleSpecs::Spec(const RoleProcess& role) const {
  if (role.role == "trainer") return Trainer(role.index, role.index, config_.cluster.trainer_ranks);
  RoleSpec spec = Plain(role);
  if (role.role == "datapool" && parts_.existed) spec.argv.push_back("--resume");
  if (role.role == "datapool" && role.index > 0 && !parts_.existed) spec.restart_extra = {"--resume"};
  if (role.role == "scheduler") spec.restart_extra = {"--resume"};
  if (role.role != "gateway") return spec;
  spec.inherits_stdout = role.index == 0 && !StartsAgents(config_);  // prints the address for agents
  if (!parts_.load_balancer.empty()) {
    // The load balancer listens where a single gateway would.
    for (const std::string& word : {std::string("--set"), std::string("http.port=0"), std::string("--set"),
                                    absl::StrCat("gateway.public_url=", parts_.load_balancer)}) {
      spec.argv.push_back(word);
    }
  }
  return spec;
}

RoleSpec RoleSpecs::Trainer(int place, int rank, int ranks) const {
  RoleSpec spec = Plain({"trainer", place});
  if (config_.cluster.trainer_ranks > 1) {
    spec.group = "trainer";
    for (const std::string& word : {std::string("--rank"), absl::StrCat(rank), std::string("--set"),
                                    absl::StrCat("cluster.trainer_ranks=", ranks), std::string("--set"),
                                    absl::StrCat("cluster.trainer_port=", parts_.meeting_port)}) {
      spec.argv.push_back(word);
    }
    if (!parts_.meeting_host.empty()) {
      spec.argv.push_back("--set");
      spec.argv.push_back("cluster.trainer_host=" + parts_.meeting_host);
    }
    // The device of the next lost rank may have failed, so nobody moves to it.
    if (rank != place) {
      spec.argv.push_back("--device-place");
      spec.argv.push_back(absl::StrCat(place));
    }
    spec.renumbered = [this, place](int index, int size) { return Trainer(place, index, size); };
  }
  if (parts_.existed) {
    spec.argv.push_back("--resume");
  } else {
    spec.restart_extra = {"--resume"};
  }
  spec.inherits_stdout = rank == 0;
  spec.decides = rank == parts_.first_rank;
  return spec;
}

RoleSpec RoleSpecs::Plain(const RoleProcess& role) const {
  const std::string& name = role.role;
  RoleSpec spec;
  spec.name = RoleName(name, role.index);
  spec.argv = {parts_.binary, name, parts_.config, "--child", absl::StrCat(getpid()), "--token-fd", "0"};
  for (const std::string& setting : parts_.settings) {
    spec.argv.push_back("--set");
    spec.argv.push_back(setting);
  }
  if (name == "rollout" || ((name == "gateway" || name == "datapool") && role.index > 0)) {
    spec.argv.push_back(name == "rollout" ? "--engine" : "--" + name);
    spec.argv.push_back(absl::StrCat(role.index));
  }
  spec.log_path = absl::StrCat(parts_.folder, "/logs/", spec.name, ".log");
  spec.may_finish = name == "agents" || name == "trainer";
  spec.wave = StopWaveOf(name);
  const bool opens = name == "agents" || name == "gateway";
  spec.input = RunSecrets{parts_.secrets.token, opens ? parts_.secrets.admin_key : ""}.Text();
  // Time to clean up the agents' folders and to save the trained weights.
  if (name == "agents") spec.stop_grace += Milliseconds(config_.agents.stop_timeout_s);
  if (name == "rollout") spec.stop_grace += Milliseconds(config_.cluster.drain_s);
  if (name == "trainer") spec.stop_grace = Milliseconds(config_.cluster.trainer_stop_s);
  return spec;
}

std::string DescribeSpecs(const std::vector<RoleSpec>& specs) {
  std::string lines;
  for (const RoleSpec& spec : specs) {
    absl::StrAppend(&lines, spec.name, std::string(spec.name.size() < 10 ? 10 - spec.name.size() : 0, ' '));
    for (const std::string& word : spec.argv) absl::StrAppend(&lines, " ", Quoted(word));
    absl::StrAppend(&lines, "\n");
  }
  return lines;
}

}  // namespace ingot::app
