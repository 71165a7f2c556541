// Implements Sink for an engine on a gRPC channel with Rollout.UpdateWeights, ReleaseVersion, and Status.
#pragma once

#include <chrono>
#include <memory>

#include "proto/grpc_channel.h"
#include "weights/sink.h"

namespace ingot::weights {

struct GrpcSinkOptions {
  std::chrono::milliseconds deadline{60000};        // time limit per call (DEADLINE_EXCEEDED), > 0
  std::chrono::milliseconds status_deadline{5000};  // time limit for LiveVersion and HeldVersions
  int64_t chunk_bytes = 1 << 20;  // payload per message; 1 to 4,000,000 (the gRPC default limit is 4 MiB)

  absl::Status Validate() const;
};

// Thread safe. A call blocks until the engine answers. Returns UNAVAILABLE if the engine is unreachable.
absl::StatusOr<std::unique_ptr<Sink>> NewGrpcSink(v1::RoleChannel channel, GrpcSinkOptions options = {});

}  // namespace ingot::weights
