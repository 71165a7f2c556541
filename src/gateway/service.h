// Serves the gateway over gRPC (proto/gateway.proto). It offers the same calls as the HTTP API and records them in the
// same way.
#pragma once

#include <grpcpp/impl/codegen/service_type.h>

#include <memory>

#include "gateway/gateway.h"

namespace ingot::gateway {

// Returns the service to register with a grpc::ServerBuilder. `gateway` must outlive it. If a client cancels a stream,
// the call is recorded as aborted. Errors have trailing metadata: "http-status" is the HTTP status, and "retry-after",
// in seconds, is present if a later retry may succeed.
std::unique_ptr<grpc::Service> NewGatewayService(Gateway& gateway);

}  // namespace ingot::gateway
