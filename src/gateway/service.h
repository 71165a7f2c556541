// The gateway over gRPC (proto/gateway.proto): the same calls as over HTTP, with the same records.
#pragma once

#include <grpcpp/impl/codegen/service_type.h>

#include <memory>

#include "gateway/gateway.h"

namespace ingot::gateway {

// The service for a grpc::ServerBuilder. `gateway` outlives it. A stream that its client cancels is recorded as
// aborted. An error carries its HTTP status in the trailing metadata "http-status", and "retry-after" in seconds if
// waiting helps.
std::unique_ptr<grpc::Service> NewGatewayService(Gateway& gateway);

}  // namespace ingot::gateway
