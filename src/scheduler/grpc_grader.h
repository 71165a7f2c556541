// Creates a Grader for a reward stage in another process.
#pragma once

#include <chrono>
#include <memory>

#include "proto/grpc_channel.h"
#include "scheduler/grader.h"

namespace ingot::scheduler {

class RemoteGrader : public Grader {
 public:
  // Makes all requests, including those in flight, return UNAVAILABLE immediately. The stage may still finish judging
  // their groups. Thread safe and idempotent.
  virtual void Stop() = 0;
};

// `deadline` limits every request. A request returns UNAVAILABLE immediately if the stage is unreachable or the
// connection is lost, because the scheduler retries on its own.
std::unique_ptr<RemoteGrader> NewGrpcGrader(v1::RoleChannel channel, std::chrono::milliseconds deadline);

}  // namespace ingot::scheduler
