// A rollout engine in another process, as a Client.
#pragma once

#include <cstdint>
#include <memory>

#include "proto/grpc_channel.h"
#include "rollout/client.h"

namespace ingot::rollout {

struct GrpcClientOptions {
  int64_t status_deadline_ms = 5000;  // of one Status call; > 0

  absl::Status Validate() const;
};

// Thread safe. OnChunk runs on gRPC's threads. A request whose engine dies ends with UNAVAILABLE. The client's
// destructor ends its requests with UNAVAILABLE and waits until gRPC is done with them; do not call it from an OnChunk.
std::shared_ptr<Client> NewGrpcClient(v1::RoleChannel channel, GrpcClientOptions options = {});

}  // namespace ingot::rollout
