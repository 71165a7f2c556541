// The engine as a gRPC service (proto/rollout.proto).
#pragma once

#include <grpcpp/impl/codegen/service_type.h>

#include <memory>

#include "rollout/engine.h"

namespace ingot::rollout {

// Generate and Status run on gRPC's callback threads and never wait for a step. UpdateWeights and ReleaseVersion each
// take a thread of the server. Cancelling Generate frees its request. `engine` must outlive the server that registers
// the service. takes_weights false = UpdateWeights and ReleaseVersion are PERMISSION_DENIED: a client that samples
// cannot change the weights.
std::unique_ptr<grpc::Service> NewRolloutService(Engine& engine, bool takes_weights = true);

}  // namespace ingot::rollout
