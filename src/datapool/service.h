// The data pool's gRPC service. A method blocks its server thread until the pool responds.
#pragma once

#include <grpcpp/impl/codegen/service_type.h>

#include <memory>

#include "datapool/client.h"

namespace ingot::datapool {

// REQUIRES: `pool` outlives the service.
std::unique_ptr<grpc::Service> NewDataPoolService(Client& pool);

}  // namespace ingot::datapool
