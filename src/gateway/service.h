// The gateway over gRPC (proto/gateway.proto): the same calls as over HTTP, with the same records.
#pragma once

#include <grpcpp/impl/codegen/service_type.h>

#include <memory>

#include "gateway/gateway.h"

namespace ingot::gateway {

// To be registered with a grpc::ServerBuilder. `gateway` outlives it. A stream whose client cancels is recorded as
// aborted. An error carries its HTTP status as trailing metadata "http-status", and "retry-after" (seconds) where
// waiting helps.
std::unique_ptr<grpc::Service> NewGatewayService(Gateway& gateway);

}  // namespace ingot::gateway
