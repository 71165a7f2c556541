// Episodes over gRPC: a gateway in another process.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "agents/episodes.h"

namespace grpc {
class Channel;
}

namespace ingot::agents {

struct GrpcEpisodesOptions {
  // Seconds each call may take, > 0; then it is DEADLINE_EXCEEDED, which the runner repeats.
  double timeout_s = 10;
  // Names this runner to the gateway, which ends the episodes that an earlier process of the same name left open.
  std::string runner = "agents";
  std::string admin_key;  // the gateway's; empty: it has none

  absl::Status Validate() const;
};

// Thread safe. A gateway that cannot be reached is UNAVAILABLE at once; the channel reconnects by itself. Status codes
// and payloads (Retry-After) arrive as the gateway made them.
std::unique_ptr<Episodes> MakeGrpcEpisodes(std::shared_ptr<grpc::Channel> channel,
                                           const GrpcEpisodesOptions& options = {});

}  // namespace ingot::agents
