// A Grader of a reward stage in another process.
#pragma once

#include <chrono>
#include <memory>

#include "proto/grpc_channel.h"
#include "scheduler/grader.h"

namespace ingot::scheduler {

// `deadline` bounds every question. A stage that cannot be reached, or that is lost meanwhile, is UNAVAILABLE at once: the
// scheduler asks again by itself, and a stopped run waits for nobody.
std::unique_ptr<Grader> NewGrpcGrader(v1::RoleChannel channel, std::chrono::milliseconds deadline);

}  // namespace ingot::scheduler
