// A client of a data pool behind a gRPC channel. Every method may be repeated, so the client retries UNAVAILABLE with
// growing pauses until the deadline, even while the pool cannot be reached. Then it returns the last error. Trees can
// be large: the channel's maximum message size must allow them. Thread safe.
#pragma once

#include <chrono>
#include <memory>

#include "datapool/client.h"
#include "proto/grpc_channel.h"

namespace ingot::datapool {

// `deadline`: of one method with its retries; > 0.
std::unique_ptr<Client> NewGrpcClient(v1::RoleChannel channel, std::chrono::milliseconds deadline);

}  // namespace ingot::datapool
