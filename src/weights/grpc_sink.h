// An engine on a gRPC channel, as a Sink: Rollout.UpdateWeights, ReleaseVersion and Status.
#pragma once

#include <chrono>
#include <memory>

#include "proto/grpc_channel.h"
#include "weights/sink.h"

namespace ingot::weights {

struct GrpcSinkOptions {
  std::chrono::milliseconds deadline{60000};        // of one call, > 0; DEADLINE_EXCEEDED after it
  std::chrono::milliseconds status_deadline{5000};  // of LiveVersion and HeldVersions, > 0
  int64_t chunk_bytes = 1 << 20;  // payload of one message; 1 to 4,000,000 (gRPC's default limit is 4 MiB)

  absl::Status Validate() const;
};

// Thread safe; a call blocks until the engine answers. UNAVAILABLE: the engine cannot be reached.
absl::StatusOr<std::unique_ptr<Sink>> NewGrpcSink(v1::RoleChannel channel, GrpcSinkOptions options = {});

}  // namespace ingot::weights
