// Creates a Client for a scheduler in another process.
#pragma once

#include <chrono>
#include <memory>

#include "proto/grpc_channel.h"
#include "scheduler/client.h"

namespace ingot::scheduler {

// `deadline` limits every call, plus wait_ms for NextBatch. Until the deadline, a call waits for an unreachable
// scheduler and retries if the connection is lost. Admit does not retry: it returns UNAVAILABLE, and the lost ticket's
// sample may count as running until its group's deadline. Status does not wait or retry.
std::unique_ptr<Client> NewGrpcClient(v1::RoleChannel channel, std::chrono::milliseconds deadline);

}  // namespace ingot::scheduler
