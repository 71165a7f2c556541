// The data pool behind gRPC. Calls block a server thread for as long as the pool does.
#pragma once

#include <grpcpp/impl/codegen/service_type.h>

#include <memory>

#include "datapool/client.h"

namespace ingot::datapool {

// REQUIRES: `pool` outlives the service.
std::unique_ptr<grpc::Service> NewDataPoolService(Client& pool);

}  // namespace ingot::datapool
