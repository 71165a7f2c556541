// The scheduler's gRPC service: forwards every rpc to a Client. A waiting NextBatch holds one server thread. It checks
// for cancellation several times a second and ends when its caller goes away.
#pragma once

#include <memory>

#include "base/clock.h"
#include "scheduler/client.h"

namespace grpc {
class Service;
}

namespace ingot::scheduler {

// `scheduler` and `clock` must outlive the server the service is registered with.
std::unique_ptr<grpc::Service> NewSchedulerService(Client& scheduler, const base::Clock& clock = base::Clock::Real());

}  // namespace ingot::scheduler
