// The processes of a run as specs for a supervisor (supervisor.h), and the nodes that run them.
//
//   cluster.groups   [{name: control, roles: [datapool, scheduler, gateway, trainer, agents]},
//                     {name: engines, nodes: 2, engines: 4, roles: [rollout]}]
//
//   node 0 of control   datapool  scheduler  gateway  trainer  agents
//   node 0 of engines   rollout-0 ... rollout-3
//   node 1 of engines   rollout-4 ... rollout-7
//
// A group of several nodes with the trainer divides its ranks in the same way. Each node with the role gateway runs one
// of cluster.gateways, and each node with the role datapool one of cluster.datapools.
//
// Without groups one machine runs all of them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "app/cluster/access/run_secrets.h"
#include "app/cluster/supervisor.h"
#include "app/run/run_config.h"
#include "base/status.h"

namespace ingot::app {

// One process of a run.
struct RoleProcess {
  std::string role;
  int index = 0;  // of the engine, gateway or pool, or rank of the trainer

  bool operator==(const RoleProcess&) const = default;
};

// Whether the trainer is the run's only role: supervised training calls no other role.
bool TrainerAlone(const RunConfig& config);

// Every process of the run, in the order of their start.
std::vector<RoleProcess> AllRoles(const RunConfig& config);

// The processes of one node, in the order of their start. NOT_FOUND: there is no such group. INVALID_ARGUMENT: it has
// fewer nodes.
absl::StatusOr<std::vector<RoleProcess>> RolesOfNode(const RunConfig& config, const std::string& group, int node);

// INVALID_ARGUMENT: the configured groups, if any, do not run every role once; or agents on one node must reach a
// gateway on another node without a key that opens episodes, or at an address that only the gateway's machine reaches.
absl::Status CheckGroups(const RunConfig& config);

// Whether no group has both the run's agents and a gateway.
bool AgentsApart(const RunConfig& config);

// An IP address, or host name, that only its own machine reaches.
bool IsLoopback(std::string_view host);

// INVALID_ARGUMENT: the run's reward stage is not a separate role, so nothing would call such a process.
absl::Status RequireRewardsRole(const RunConfig& config);

// Makes the specs. Not thread safe.
class RoleSpecs {
 public:
  struct Parts {
    std::string folder;                 // the run's
    std::string config;                 // the configuration that the processes read
    bool existed = false;               // the folder held a run before this start
    std::string binary;                 // this program
    std::vector<std::string> settings;  // KEY=VALUE, over it
    std::string load_balancer;          // URL for agents, in front of several gateways (load_balancer.h); empty = none
    RunSecrets secrets;
    // Where the trainer's ranks meet, if there are several. Empty = this machine's address.
    std::string meeting_host;
    int meeting_port = 0;
    int first_rank = 0;  // of this node
  };

  RoleSpecs(const RunConfig& config, Parts parts) : config_(config), parts_(std::move(parts)) {}

  // REQUIRES: this outlives the spec.
  RoleSpec Spec(const RoleProcess& role) const;

 private:
  RoleSpec Plain(const RoleProcess& role) const;
  // `place` names the process; `rank` of `ranks` may change when others are lost.
  RoleSpec Trainer(int place, int rank, int ranks) const;

  const RunConfig& config_;
  const Parts parts_;
};

// A line for each process: its name and command, without secrets.
std::string DescribeSpecs(const std::vector<RoleSpec>& specs);

}  // namespace ingot::app
