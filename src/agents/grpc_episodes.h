// Implements Episodes over gRPC, with one or more gateways in other processes.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "agents/episodes.h"
#include "proto/grpc_channel.h"

namespace ingot::agents {

struct GrpcEpisodesOptions {
  // Call timeout in seconds, > 0. After that, the call fails with DEADLINE_EXCEEDED and the runner retries it.
  double timeout_s = 10;
  // This runner's name. The gateway ends episodes that an earlier process with the same name left open.
  std::string runner = "agents";
  std::string admin_key = {};  // the gateway's admin key; empty = it has none

  absl::Status Validate() const;
};

// Thread safe. Calls fail immediately with UNAVAILABLE if no gateway can be reached. The channels reconnect on their
// own. Status codes and payloads (Retry-After) come from the gateway. Episodes are opened on the gateways in turn.
// Later requests are sent first to the gateway that opened the episode, and then to the others, because the episode may
// have moved. REQUIRES: at least one channel.
std::unique_ptr<Episodes> MakeGrpcEpisodes(std::vector<v1::RoleChannel> channels,
                                           const GrpcEpisodesOptions& options = {});

}  // namespace ingot::agents
