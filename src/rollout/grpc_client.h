// Implements Client for a rollout engine in another process.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "proto/grpc_channel.h"
#include "rollout/client.h"
#include "rollout/parking.h"

namespace ingot::rollout {

struct GrpcClientOptions {
  int64_t status_deadline_ms = 5000;  // timeout for a Status call; > 0

  absl::Status Validate() const;
};

// Thread safe. OnChunk runs on gRPC threads. If the engine dies, its requests end with UNAVAILABLE. The client's
// destructor ends its requests with UNAVAILABLE and waits until gRPC has finished with them. Do not destroy the client
// inside an OnChunk.
std::shared_ptr<Client> NewGrpcClient(v1::RoleChannel channel, GrpcClientOptions options = {});

// A Parking for an engine in another process. Thread safe. Calls block for at most `timeout`.
std::shared_ptr<Parking> NewGrpcParking(v1::RoleChannel channel, std::chrono::milliseconds timeout);

}  // namespace ingot::rollout
