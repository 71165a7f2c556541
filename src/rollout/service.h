// Serves the engine over gRPC (proto/rollout.proto).
#pragma once

#include <grpcpp/impl/codegen/service_type.h>

#include <memory>

#include "rollout/engine.h"

namespace ingot::rollout {

// Generate and Status run on gRPC callback threads and never wait for a step. UpdateWeights and ReleaseVersion each use
// a server thread. Cancelling Generate frees its request. If takes_weights is false, UpdateWeights and ReleaseVersion
// return PERMISSION_DENIED, so sampling clients cannot change the weights. REQUIRES: `engine` outlives the server that
// the service is registered with.
std::unique_ptr<grpc::Service> NewRolloutService(Engine& engine, bool takes_weights = true);

}  // namespace ingot::rollout
