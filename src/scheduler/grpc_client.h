// A Client that speaks to a scheduler in another process.
#pragma once

#include <chrono>
#include <memory>

#include "scheduler/client.h"

namespace grpc {
class Channel;
}

namespace ingot::scheduler {

// `deadline` bounds every call; NextBatch has its wait_ms on top. A call that the deadline or a lost connection ended
// (DEADLINE_EXCEEDED, UNAVAILABLE) may have been carried out: repeating it is safe, except that an Admit whose answer
// was lost leaves a sample running until its group's deadline.
std::unique_ptr<Client> NewGrpcClient(std::shared_ptr<grpc::Channel> channel, std::chrono::milliseconds deadline);

}  // namespace ingot::scheduler
