// A Client of a gateway in another process.
#pragma once

#include <chrono>
#include <memory>

#include "gateway/client.h"
#include "proto/grpc_channel.h"

namespace ingot::gateway {

// Each call makes one try, of at most `deadline`. UNAVAILABLE: the gateway cannot be reached.
std::unique_ptr<Client> NewGrpcClient(v1::RoleChannel channel, std::chrono::milliseconds deadline);

}  // namespace ingot::gateway
