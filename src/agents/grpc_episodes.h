// Episodes over gRPC: one or several gateways in other processes.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "agents/episodes.h"
#include "proto/grpc_channel.h"

namespace ingot::agents {

struct GrpcEpisodesOptions {
  // Seconds that a call may take, > 0. After that it fails with DEADLINE_EXCEEDED, and the runner repeats it.
  double timeout_s = 10;
  // The name of this runner. The gateway ends episodes that an earlier process of the same name left open.
  std::string runner = "agents";
  std::string admin_key = {};  // of the gateway; empty = it has none

  absl::Status Validate() const;
};

// Thread safe. UNAVAILABLE, at once: no gateway can be reached; the channels reconnect by themselves. Status codes and
// payloads (Retry-After) arrive as the gateway made them. Gateways open episodes in turn. A later request goes to the
// one that opened its episode, then to the others: the episode may continue there. REQUIRES: at least one channel.
std::unique_ptr<Episodes> MakeGrpcEpisodes(std::vector<v1::RoleChannel> channels,
                                           const GrpcEpisodesOptions& options = {});

}  // namespace ingot::agents
