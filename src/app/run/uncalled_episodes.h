// Lists and ends open episodes of external clients that have made no call, at all gateways of a run. If a client
// crashes after opening an episode, the episode occupies a slot until gateway.episode_first_call_s has passed, and the
// run may wait for it. Functions block on one gateway after another.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "gateway/client.h"

namespace ingot::app {

// The gateways of a run, with their names.
using Gateways = std::vector<std::pair<std::string, std::shared_ptr<gateway::Client>>>;

// The `uncalled*` fields, merged over all gateways that respond. Oldest episodes first.
struct UncalledEpisodes {
  v1::GatewayStatusResponse all;
  std::vector<std::string> silent;  // "gateway-1: ERROR" for each gateway that does not respond
};
UncalledEpisodes AskUncalled(const Gateways& gateways);

// Returns "4 episodes have made no call yet (oldest 161 s)", or empty if there are none.
std::string DescribeUncalled(const v1::GatewayStatusResponse& status);

// Returns INVALID_ARGUMENT if this is not an episode id. The error is safe to print.
absl::Status CheckEpisodeId(const std::string& episode_id);

// Ends the episode at the gateway that serves it, or all uncalled episodes if the id is empty. `key` is
// EndUncalledRequest.admin_key. Returns the number of ended episodes, or the errors of v1::Gateway.EndUncalled and
// CheckEpisodeId. Returns UNAVAILABLE if a gateway that may serve the episode does not respond.
absl::StatusOr<int64_t> EndUncalled(const Gateways& gateways, const std::string& episode_id, const std::string& key);

}  // namespace ingot::app
