// Implements EngineGuard for an engine in another process.
#pragma once

#include <chrono>
#include <memory>

#include "engines/engine_guard.h"
#include "proto/grpc_channel.h"

namespace ingot::engines {

// Thread safe. Calls block for at most `timeout`.
std::shared_ptr<EngineGuard> NewGrpcEngineGuard(v1::RoleChannel channel, std::chrono::milliseconds timeout);

}  // namespace ingot::engines
