// A Client of a scheduler in another process.
#pragma once

#include <chrono>
#include <memory>

#include "proto/grpc_channel.h"
#include "scheduler/client.h"

namespace ingot::scheduler {

// `deadline` bounds every call; NextBatch has its wait_ms on top. Until then a call waits for a scheduler that cannot
// be reached, and is repeated after a lost connection. Admit is not repeated: it returns UNAVAILABLE, and the lost
// ticket's sample may count as running until its group's deadline. Status neither waits nor is repeated.
std::unique_ptr<Client> NewGrpcClient(v1::RoleChannel channel, std::chrono::milliseconds deadline);

}  // namespace ingot::scheduler
