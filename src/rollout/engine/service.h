// Serves an engine over gRPC (proto/rollout.proto).
#pragma once

#include <grpcpp/impl/codegen/service_type.h>

#include <cstdint>
#include <memory>
#include <optional>

#include "rollout/client.h"
#include "rollout/parking.h"
#include "rollout/served_engine.h"
#include "weights/delta.h"
#include "weights/sink.h"

namespace ingot::rollout {

// Receives an engine's updates.
struct WeightReceiver {
  weights::Sink& sink;
  weights::CodecOptions codec;   // codec.max_bytes limits a version
  int64_t max_update_bytes = 0;  // limit on one update's messages, EngineOptions::max_update_bytes
};

// Generate and Status run on gRPC callback threads and never wait for a step. UpdateWeights and ReleaseVersion each use
// a server thread. Cancelling Generate frees its request. Without a receiver, UpdateWeights and ReleaseVersion return
// PERMISSION_DENIED, so sampling clients cannot change the weights. REQUIRES: `engine` and the receiver's sink outlive
// the server that the service is registered with.
std::unique_ptr<grpc::Service> NewRolloutService(Client& engine, std::optional<WeightReceiver> receiver);

// Serves an engine that receives weights.
inline std::unique_ptr<grpc::Service> NewRolloutService(ServedEngine& engine) {
  return NewRolloutService(engine, WeightReceiver{engine, engine.codec(), engine.options().max_update_bytes});
}

// REQUIRES: `parking` outlives the server.
std::unique_ptr<grpc::Service> NewParkingService(Parking& parking);

}  // namespace ingot::rollout
