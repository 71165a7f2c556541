// The gateway interface for roles and commands that monitor a run. Implemented by this process's gateway and by a gRPC
// stub (grpc_client.h). Thread safe. Calls may block.
#pragma once

#include "base/status.h"
#include "proto/gateway.pb.h"

namespace ingot::gateway {

class Client {
 public:
  virtual ~Client() = default;
  virtual absl::StatusOr<v1::GatewayStatusResponse> Status() = 0;
  // Returns the errors of v1::Gateway.EndUncalled.
  virtual absl::StatusOr<v1::EndUncalledResponse> EndUncalled(const v1::EndUncalledRequest& request) = 0;
};

}  // namespace ingot::gateway
