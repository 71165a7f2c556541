// A Grader of a reward stage in another process.
#pragma once

#include <chrono>
#include <memory>

#include "proto/grpc_channel.h"
#include "scheduler/grader.h"

namespace ingot::scheduler {

class RemoteGrader : public Grader {
 public:
  // From here on every request is UNAVAILABLE at once, including requests in flight. The stage may finish judging them.
  // Thread safe, idempotent.
  virtual void Stop() = 0;
};

// `deadline` limits every request. A stage that cannot be reached, or whose connection is lost, is UNAVAILABLE at once:
// the scheduler asks again by itself.
std::unique_ptr<RemoteGrader> NewGrpcGrader(v1::RoleChannel channel, std::chrono::milliseconds deadline);

}  // namespace ingot::scheduler
