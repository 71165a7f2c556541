// Creates clients for a data pool behind a gRPC channel. All methods are idempotent, so the client retries UNAVAILABLE
// errors with increasing delays until the deadline, even while the pool is unreachable. Then it returns the last error.
// Trees can be large, so the channel's maximum message size must allow them. Thread safe.
#pragma once

#include <chrono>
#include <memory>

#include "datapool/client.h"
#include "proto/grpc_channel.h"

namespace ingot::datapool {

// `deadline` limits one method call, including its retries; > 0.
std::unique_ptr<Client> NewGrpcClient(v1::RoleChannel channel, std::chrono::milliseconds deadline);

}  // namespace ingot::datapool
