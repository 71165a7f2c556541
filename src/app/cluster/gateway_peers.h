// One gateway's view of the run's gateways: which are registered, and channels to the others.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "app/cluster/run_registry.h"
#include "base/clock.h"
#include "gateway/peers.h"

namespace ingot::app {

class GatewayPeers {
 public:
  // `index`: this gateway's number, out of `gateways`. REQUIRES: the registry follows its roles, and outlives this.
  GatewayPeers(RunRegistry& registry, int gateways, int index);

  gateway::Peers& peers() { return *peers_; }
  // Episode.gateway of this process.
  const std::string& name() const { return name_; }

  // The gateways that were registered and have been gone for kGone. Each stays in the result until it is back or
  // settled. Call it about once a second, from one thread; it does not block.
  std::vector<std::string> Gone();
  void Settle(const std::string& role) { gone_since_.erase(role); }
  static constexpr std::chrono::seconds kGone{5};

 private:
  // Peers::Present. UNAVAILABLE: this gateway is not in the registry's last list. Then the registry has not reported a
  // list, or has lost all leases, for instance while it has no majority of its members.
  absl::StatusOr<std::vector<std::string>> Present();

  RunRegistry& registry_;
  const std::string role_;
  const std::string name_;
  std::unique_ptr<gateway::Peers> peers_;
  // Of the thread of Gone, by role; 0 = it is registered.
  std::map<std::string, std::chrono::nanoseconds> gone_since_;
};

}  // namespace ingot::app
