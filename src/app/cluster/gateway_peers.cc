#include "app/cluster/gateway_peers.h"

#include <algorithm>
#include <set>

#include "base/random.h"
#include "gateway/grpc_peers.h"

namespace ingot::app {

GatewayPeers::GatewayPeers(RunRegistry& registry, int gateways, int index)
    : registry_(registry), role_(RoleName("gateway", index)), name_(gateway::GatewayName(role_, base::RandomHex(4))) {
  gateway::GrpcPeersOptions options;
  for (int i = 0; i < gateways; ++i) {
    if (i != index) options.channels.emplace(RoleName("gateway", i), registry.To(RoleName("gateway", i)));
  }
  options.present = [this] { return Present(); };
  peers_ = gateway::MakeGrpcPeers(std::move(options));
}

absl::StatusOr<std::vector<std::string>> GatewayPeers::Present() {
  std::vector<std::string> roles;
  for (const RolePlace& place : registry_.LastPlaces()) {
    if (!place.http.empty()) roles.push_back(place.name);
  }
  if (std::find(roles.begin(), roles.end(), role_) != roles.end()) return roles;
  return absl::UnavailableError(absl::StrCat(registry_.Describe(), " does not report which gateways are registered"));
}

std::vector<std::string> GatewayPeers::Gone() {
  std::vector<std::string> gone;
  const absl::StatusOr<std::vector<std::string>> present = Present();
  if (!present.ok()) return gone;  // unknown
  const std::chrono::nanoseconds now = base::Clock::Real().Now();
  const std::set<std::string> there(present->begin(), present->end());
  for (const std::string& role : there) gone_since_[role] = std::chrono::nanoseconds(0);
  for (auto& [role, since] : gone_since_) {
    if (there.contains(role)) continue;
    if (since == std::chrono::nanoseconds(0)) since = now;
    if (now - since >= kGone) gone.push_back(role);
  }
  return gone;
}

}  // namespace ingot::app
