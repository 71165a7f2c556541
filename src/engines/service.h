// Serves the guard of an engine in this process over gRPC.
#pragma once

#include <grpcpp/impl/codegen/service_type.h>

#include <memory>

#include "engines/engine_guard.h"

namespace ingot::engines {

// REQUIRES: `guard` outlives the service.
std::unique_ptr<grpc::Service> NewEngineGuardService(EngineGuard& guard);

}  // namespace ingot::engines
