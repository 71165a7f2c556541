#include "app/commands/run/node_addresses.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "absl/strings/numbers.h"
#include "app/cluster/role_addresses.h"
#include "app/run/process.h"
#include "base/waits.h"

namespace ingot::app {

NodeAddresses::NodeAddresses(const RunConfig& config, RunRegistry* registry, bool drives,
                             std::function<void(const std::string& line)> print)
    : config_(config), registry_(registry), drives_(drives), print_(std::move(print)) {}

absl::Status NodeAddresses::SetRanks(const std::vector<RoleProcess>& roles, RoleSpecs::Parts& parts) {
  const auto trainer =
      std::find_if(roles.begin(), roles.end(), [](const auto& role) { return role.role == "trainer"; });
  if (trainer == roles.end() || config_.cluster.trainer_ranks == 1) return absl::OkStatus();
  parts.first_rank = trainer->index;
  if (drives_) {
    const std::string host = OwnHost(config_.cluster);
    INGOT_ASSIGN_OR_RETURN(meeting_, HoldPort("cluster.trainer_port", host, config_.cluster.trainer_port));
    parts.meeting_port = meeting_.port;
    parts.meeting_host = host;
    return registry_->Register("ranks", absl::StrCat(host, ":", parts.meeting_port));
  }
  INGOT_ASSIGN_OR_RETURN(const std::string place, Find("ranks", "the node with rank 0 of the trainer"));
  const size_t colon = place.rfind(':');
  parts.meeting_host = place.substr(0, colon);
  if (absl::SimpleAtoi(place.substr(colon + 1), &parts.meeting_port)) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("the ranks' address in the registry is '", place, "'"));
}

absl::Status NodeAddresses::SetLoadBalancer(const std::vector<RoleProcess>& roles, RoleSpecs::Parts& parts) {
  if (drives_) {
    INGOT_ASSIGN_OR_RETURN(load_balancer_, LoadBalancer::Listen(config_.http.host, config_.http.port));
    parts.load_balancer = LoadBalancerUrl(config_, OwnHost(config_.cluster), load_balancer_->port());
    load_balancer_updater_ = std::make_unique<LoadBalancerUpdater>(*load_balancer_, *registry_);
    return registry_->Register("balancer", parts.load_balancer);
  }
  const auto is_gateway = [](const RoleProcess& role) { return role.role == "gateway"; };
  if (std::none_of(roles.begin(), roles.end(), is_gateway)) return absl::OkStatus();
  INGOT_ASSIGN_OR_RETURN(parts.load_balancer,
                         Find("balancer", "the node that drives the run, with the address for agents"));
  return absl::OkStatus();
}

absl::StatusOr<std::string> NodeAddresses::Find(const std::string& name, const std::string& who) {
  print_("waits for " + who);
  base::Wait wait(who);
  while (!StopFlag()) {
    const absl::StatusOr<std::vector<RolePlace>> places = registry_->Places();
    if (!places.ok() && !absl::IsUnavailable(places.status())) return places.status();
    wait.Because(places.ok() ? who : absl::StrCat(who, " (", places.status().message(), ")"));
    for (const RolePlace& place : places.ok() ? *places : std::vector<RolePlace>()) {
      if (place.name == name) return place.address;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
  }
  return absl::CancelledError(absl::StrCat("stopped while waiting for ", who, ""));
}

}  // namespace ingot::app
