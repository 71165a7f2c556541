// A Client for a gateway in another process.
#pragma once

#include <chrono>
#include <memory>

#include "gateway/client.h"
#include "proto/grpc_channel.h"

namespace ingot::gateway {

// Calls are not retried and take at most `deadline`. They return UNAVAILABLE if the gateway cannot be reached.
std::unique_ptr<Client> NewGrpcClient(v1::RoleChannel channel, std::chrono::milliseconds deadline);

}  // namespace ingot::gateway
