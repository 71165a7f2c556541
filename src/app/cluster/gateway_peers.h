// The gateways of a run, for one of them: who is there by the registry, and channels to the others.
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
  // `index`: this gateway's number of `gateways`. REQUIRES: the registry follows its roles, and outlives this.
  GatewayPeers(RunRegistry& registry, int gateways, int index);

  gateway::Peers& peers() { return *peers_; }
  // Episode.gateway of this process.
  const std::string& name() const { return name_; }

  // The gateways that were there and have been gone for kGone. Each stays in the answer until it is back or settled. To be
  // called about once a second, by one thread; does not block.
  std::vector<std::string> Gone();
  void Settle(const std::string& role) { gone_since_.erase(role); }
  static constexpr std::chrono::seconds kGone{5};

 private:
  // Peers::Present. UNAVAILABLE: this gateway is not among the places that were told last. Then the registry has told none yet,
  // or has lost all leases, such as in a time without a majority of its members.
  absl::StatusOr<std::vector<std::string>> Present();

  RunRegistry& registry_;
  const std::string role_;
  const std::string name_;
  std::unique_ptr<gateway::Peers> peers_;
  // Of the thread of Gone, by role; 0 = it is there.
  std::map<std::string, std::chrono::nanoseconds> gone_since_;
};

}  // namespace ingot::app
