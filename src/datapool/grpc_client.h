// A data pool behind a gRPC channel. Every call of the pool may be repeated, so UNAVAILABLE is tried again, with
// growing pauses, until the deadline; then the last error stands. A pool that cannot be reached is waited for as long.
// Thread safe. Trees can be large: the channel needs a maximum message size to match.
#pragma once

#include <grpcpp/channel.h>

#include <chrono>
#include <memory>

#include "datapool/client.h"

namespace ingot::datapool {

// `deadline` of one call, its repetitions included; > 0.
std::unique_ptr<Client> NewGrpcClient(std::shared_ptr<grpc::Channel> channel, std::chrono::milliseconds deadline);

}  // namespace ingot::datapool
