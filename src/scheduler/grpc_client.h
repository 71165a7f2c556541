// A Client that speaks to a scheduler in another process.
#pragma once

#include <chrono>
#include <memory>

#include "scheduler/client.h"

namespace grpc {
class Channel;
}

namespace ingot::scheduler {

// `deadline` bounds every call; NextBatch has its wait_ms on top. Within it a scheduler that cannot be reached is
// waited for, and a call that lost its connection is repeated, which is safe for all but Admit: there UNAVAILABLE is
// returned, and a sample may run until its group's deadline. Status never waits.
std::unique_ptr<Client> NewGrpcClient(std::shared_ptr<grpc::Channel> channel, std::chrono::milliseconds deadline);

}  // namespace ingot::scheduler
