// The reward stage's gRPC service, which forwards every request to a Grader. Each request blocks one server thread
// until it is answered.
#pragma once

#include <memory>

#include "scheduler/grader.h"

namespace grpc {
class Service;
}

namespace ingot::scheduler {

// `grader` must outlive the server with which the service is registered.
std::unique_ptr<grpc::Service> NewGraderService(Grader& grader);

}  // namespace ingot::scheduler
