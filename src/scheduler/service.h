// The scheduler's gRPC service, which forwards every RPC to a Client. A waiting NextBatch blocks one server thread. It
// checks for cancellation several times per second and returns when its caller disconnects.
#pragma once

#include <memory>

#include "base/clock.h"
#include "scheduler/client.h"

namespace grpc {
class Service;
}

namespace ingot::scheduler {

// `scheduler` and `clock` must outlive the server with which the service is registered.
std::unique_ptr<grpc::Service> NewSchedulerService(Client& scheduler, const base::Clock& clock = base::Clock::Real());

}  // namespace ingot::scheduler
