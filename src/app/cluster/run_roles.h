// Builds the supervisor specs (supervisor.h) for a run's processes and assigns the processes to nodes.
//
//   cluster.groups   [{name: control, roles: [datapool, scheduler, gateway, trainer, agents]},
//                     {name: engines, nodes: 2, engines: 4, roles: [rollout]}]
//
//   node 0 of control   datapool  scheduler  gateway  trainer  agents
//   node 0 of engines   rollout-0 ... rollout-3
//   node 1 of engines   rollout-4 ... rollout-7
//
// If a group with the trainer has several nodes, the trainer's ranks are divided among them in the same way. Each node
// with the gateway role runs one of the cluster.gateways processes, and each node with the datapool role runs one of
// the cluster.datapools processes.
//
// Without groups, one machine runs all processes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "app/cluster/access/run_secrets.h"
#include "app/cluster/supervisor.h"
#include "app/run/run_config.h"
#include "base/status.h"

namespace ingot::app {

// One of a run's processes.
struct RoleProcess {
  std::string role;
  int index = 0;  // index of the engine, gateway, or pool, or the trainer's rank

  bool operator==(const RoleProcess&) const = default;
};

// Returns whether the trainer is the run's only role. If so, training is supervised and calls no other role.
bool TrainerAlone(const RunConfig& config);

// Returns all of the run's processes in start order.
std::vector<RoleProcess> AllRoles(const RunConfig& config);

// Returns the number of trainer ranks on each machine that has any.
int RanksPerNode(const RunConfig& config);

// Returns the index of a trainer rank or engine among the processes that use its machine's devices, which are assigned
// round-robin: first the machine's ranks, then its engines. If cluster.host is a loopback address, all nodes are on one
// machine.
int DevicePlaceOf(const RunConfig& config, const RoleProcess& process);

// Returns one node's processes in start order. Returns NOT_FOUND if the group does not exist, and INVALID_ARGUMENT if
// it does not have that many nodes.
absl::StatusOr<std::vector<RoleProcess>> RolesOfNode(const RunConfig& config, const std::string& group, int node);

// Returns INVALID_ARGUMENT if groups are configured but do not run every role exactly once. Also returns
// INVALID_ARGUMENT if agents must reach a gateway on another node, but there is no key that opens episodes or the
// address is only reachable on the gateway's machine.
absl::Status CheckGroups(const RunConfig& config);

// Returns whether no group has both the run's agents and a gateway.
bool AgentsApart(const RunConfig& config);

// Returns whether an IP address or host name is only reachable on its own machine.
bool IsLoopback(std::string_view host);

// Returns INVALID_ARGUMENT if the reward stage is not a separate role, because no role would call a rewards process.
absl::Status RequireRewardsRole(const RunConfig& config);

// Creates the specs. Not thread safe.
class RoleSpecs {
 public:
  struct Parts {
    std::string folder;                 // run folder
    std::string config;                 // path of the configuration file that the processes read
    bool existed = false;               // the folder already contained a run
    std::string binary;                 // path of this program
    std::vector<std::string> settings;  // KEY=VALUE overrides of the configuration
    std::string load_balancer;          // agents' URL in front of several gateways (load_balancer.h); empty = none
    RunSecrets secrets;
    // Host where several trainer ranks rendezvous; empty = this machine's address.
    std::string meeting_host;
    int meeting_port = 0;
    int first_rank = 0;  // first trainer rank on this node
  };

  RoleSpecs(const RunConfig& config, Parts parts) : config_(config), parts_(std::move(parts)) {}

  // REQUIRES: this object outlives the spec.
  RoleSpec Spec(const RoleProcess& role) const;

 private:
  RoleSpec Plain(const RoleProcess& role) const;
  // `place` identifies the process and its device. `rank` and `ranks` may change when other ranks are lost.
  RoleSpec Trainer(int place, int rank, int ranks) const;

  const RunConfig& config_;
  const Parts parts_;
};

// Returns one line per process with its name and command, without secrets.
std::string DescribeSpecs(const std::vector<RoleSpec>& specs);

}  // namespace ingot::app
