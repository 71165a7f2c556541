// Makes unary RPCs that survive a server restart.
#pragma once

#include <grpcpp/client_context.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "absl/status/statusor.h"
#include "proto/grpc_channel.h"
#include "proto/grpc_status.h"

namespace ingot::v1 {

struct CallPolicy {
  std::chrono::milliseconds timeout{30000};  // for the whole call, including retries
  bool wait = true;    // waits for a server that cannot be reached; false = fails with UNAVAILABLE immediately
  bool repeat = true;  // retries on UNAVAILABLE with backoff; false = for calls that must not be repeated
};

// Makes a unary call and blocks until it returns. Each retry uses the role's current address. Returns DEADLINE_EXCEEDED
// or the last UNAVAILABLE if the timeout has passed.
template <typename Service, typename Stub, typename Request, typename Response>
absl::StatusOr<Response> CallUnary(const Stubs<Service>& stubs,
                                   grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                                   const Request& request, const CallPolicy& policy) {
  using std::chrono::milliseconds;
  // The loop's own deadline is monotonic. The gRPC deadline uses the wall clock and is reset for each attempt.
  const auto end = std::chrono::steady_clock::now() + policy.timeout;
  for (milliseconds pause(10);; pause = std::min(2 * pause, milliseconds(1000))) {
    grpc::ClientContext context;
    const auto left =
        std::max(std::chrono::duration_cast<milliseconds>(end - std::chrono::steady_clock::now()), milliseconds(1));
    context.set_deadline(std::chrono::system_clock::now() + left);
    context.set_wait_for_ready(policy.wait);
    Response response;
    const grpc::Status status = ((*stubs.Now()).*method)(&context, request, &response);
    if (status.ok()) return response;
    if (!policy.repeat || status.error_code() != grpc::StatusCode::UNAVAILABLE ||
        std::chrono::steady_clock::now() + pause >= end) {
      return FromGrpc(status);
    }
    std::this_thread::sleep_for(pause);
  }
}

}  // namespace ingot::v1
