// A Client of a scheduler in another process.
#pragma once

#include <chrono>
#include <memory>

#include "proto/grpc_channel.h"
#include "scheduler/client.h"

namespace ingot::scheduler {

// `deadline` limits every call; NextBatch adds its wait_ms. Until then a call waits for a scheduler that cannot be
// reached, and retries after a lost connection. Admit does not retry: it returns UNAVAILABLE, and the lost ticket's
// sample may count as running until its group's deadline. Status neither waits nor retries.
std::unique_ptr<Client> NewGrpcClient(v1::RoleChannel channel, std::chrono::milliseconds deadline);

}  // namespace ingot::scheduler
