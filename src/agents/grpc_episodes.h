// Episodes over gRPC: a gateway in another process.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "agents/episodes.h"
#include "proto/grpc_channel.h"

namespace ingot::agents {

struct GrpcEpisodesOptions {
  // Seconds that a call may take, > 0. After them it is DEADLINE_EXCEEDED, and the runner repeats it.
  double timeout_s = 10;
  // The name of this runner. The gateway ends episodes that an earlier process of the same name left open.
  std::string runner = "agents";
  std::string admin_key = {};  // of the gateway; empty = it has none

  absl::Status Validate() const;
};

// Thread safe. UNAVAILABLE, at once: the gateway cannot be reached; the channel reconnects by itself. Status codes and
// payloads (Retry-After) arrive as the gateway made them.
std::unique_ptr<Episodes> MakeGrpcEpisodes(v1::RoleChannel channel, const GrpcEpisodesOptions& options = {});

}  // namespace ingot::agents
