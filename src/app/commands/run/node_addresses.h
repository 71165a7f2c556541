// Shares addresses among a run's nodes through the registry: where the trainer's ranks meet, and the load balancer if
// any. The node that drives the run provides them, and other nodes wait for them. Not thread safe.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "app/checks/port_check.h"
#include "app/cluster/load_balancer.h"
#include "app/cluster/run_registry.h"
#include "app/cluster/run_roles.h"
#include "app/run/run_config.h"
#include "base/status.h"

namespace ingot::app {

class NodeAddresses {
 public:
  // `drives` = this node drives the run. `print` prints a line. REQUIRES: `config` and `registry` outlive this object.
  // `registry` may be null only if the trainer is alone and has one rank, because no method needs it then.
  NodeAddresses(const RunConfig& config, RunRegistry* registry, bool drives,
                std::function<void(const std::string& line)> print);

  // If the trainer has several ranks and some are in `roles`, sets the address where the ranks meet. Both methods block
  // until the node that drives the run has registered its address, and return CANCELLED if this node is stopped.
  absl::Status SetRanks(const std::vector<RoleProcess>& roles, RoleSpecs::Parts& parts);
  // Starts the load balancer, or sets its address if a gateway is in `roles`.
  absl::Status SetLoadBalancer(const std::vector<RoleProcess>& roles, RoleSpecs::Parts& parts);

 private:
  // Returns the address that another node registers under this name. Returns CANCELLED if this node is stopped.
  absl::StatusOr<std::string> Find(const std::string& name, const std::string& who);

  const RunConfig& config_;
  RunRegistry* const registry_;
  const bool drives_;
  const std::function<void(const std::string& line)> print_;
  HeldPort meeting_;                             // port for the ranks, if rank 0 is on this node
  std::unique_ptr<LoadBalancer> load_balancer_;  // for several gateways, if this node drives the run
  std::unique_ptr<LoadBalancerUpdater> load_balancer_updater_;
};

}  // namespace ingot::app
