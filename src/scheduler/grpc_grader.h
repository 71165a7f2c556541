// A Grader of a reward stage in another process.
#pragma once

#include <chrono>
#include <memory>

#include "proto/grpc_channel.h"
#include "scheduler/grader.h"

namespace ingot::scheduler {

class RemoteGrader : public Grader {
 public:
  // Every question is UNAVAILABLE at once from here on, those that wait for an answer too. The stage may finish what it
  // judges. Thread safe, idempotent.
  virtual void Stop() = 0;
};

// `deadline` bounds every question. A stage that cannot be reached, or that is lost meanwhile, is UNAVAILABLE at once: the
// scheduler asks again by itself.
std::unique_ptr<RemoteGrader> NewGrpcGrader(v1::RoleChannel channel, std::chrono::milliseconds deadline);

}  // namespace ingot::scheduler
