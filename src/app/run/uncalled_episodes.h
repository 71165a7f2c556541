// Episodes of outside clients that were opened and have made no call. A client that died after the opening holds a place
// until gateway.episode_first_call_s has passed, and the run may wait for it. Here a run asks all its gateways about
// them, or ends them. Blocks for each gateway in turn.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "gateway/client.h"

namespace ingot::app {

// The gateways of a run, each by its name.
using Gateways = std::vector<std::pair<std::string, std::shared_ptr<gateway::Client>>>;

// The fields `uncalled*` of all gateways that answer, as if they were one: the oldest episodes come first.
struct UncalledEpisodes {
  v1::GatewayStatusResponse all;
  std::vector<std::string> silent;  // "gateway-1: why it does not answer"
};
UncalledEpisodes AskUncalled(const Gateways& gateways);

// "4 episodes have made no call yet (oldest 161 s)"; empty = there are none.
std::string DescribeUncalled(const v1::GatewayStatusResponse& status);

// INVALID_ARGUMENT: it is not the id of an episode. The error may be printed.
absl::Status CheckEpisodeId(const std::string& episode_id);

// Ends the episode, or all with an empty id, at whichever gateway serves it. `key`: EndUncalledRequest.admin_key.
// Returns how many ended. Errors are v1::Gateway.EndUncalled's and CheckEpisodeId's. UNAVAILABLE: a gateway that may serve the episode does not answer.
absl::StatusOr<int64_t> EndUncalled(const Gateways& gateways, const std::string& episode_id, const std::string& key);

}  // namespace ingot::app
