// A client's unary rpc that survives a restart of its server.
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
  std::chrono::milliseconds timeout{30000};  // of the call, including retries
  bool wait = true;                          // waits for a server that cannot be reached; false = UNAVAILABLE at once
  bool repeat = true;  // retries on UNAVAILABLE, with growing pauses; false = for calls that must not be repeated
};

// Makes one unary call and blocks for its response. Each retry goes to the role's address at that moment.
// DEADLINE_EXCEEDED or the last UNAVAILABLE: the timeout has passed.
template <typename Service, typename Stub, typename Request, typename Response>
absl::StatusOr<Response> CallUnary(const Stubs<Service>& stubs,
                                   grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                                   const Request& request, const CallPolicy& policy) {
  using std::chrono::milliseconds;
  // The loop's own deadline is monotonic. gRPC's deadline is by the wall clock and set anew for each try.
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
