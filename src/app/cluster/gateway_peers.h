// Tracks which of the run's other gateways are registered, and opens channels to them.
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
  // `index` is this gateway's index, out of `gateways`. REQUIRES: the registry follows its roles and outlives this
  // object.
  GatewayPeers(RunRegistry& registry, int gateways, int index);

  gateway::Peers& peers() { return *peers_; }
  // Returns this process's name in Episode.gateway.
  const std::string& name() const { return name_; }

  // Returns the gateways that were once registered and have been missing for kGone. A gateway is returned until it
  // registers again or is settled. Call this about once a second from one thread. Does not block.
  std::vector<std::string> Gone();
  void Settle(const std::string& role) { gone_since_.erase(role); }
  static constexpr std::chrono::seconds kGone{5};

 private:
  // Implements Peers::Present. Returns UNAVAILABLE if the registry's last list does not include this gateway. In that
  // case, the registry has not reported a list yet, or has lost all leases, for example because it lost its quorum.
  absl::StatusOr<std::vector<std::string>> Present();

  RunRegistry& registry_;
  const std::string role_;
  const std::string name_;
  std::unique_ptr<gateway::Peers> peers_;
  // By role; 0 = registered. Used only by the thread that calls Gone.
  std::map<std::string, std::chrono::nanoseconds> gone_since_;
};

}  // namespace ingot::app
