// A gateway as the roles and commands see it that watch a run: its object or a gRPC stub (grpc_client.h). Thread safe.
// Calls may block.
#pragma once

#include "base/status.h"
#include "proto/gateway.pb.h"

namespace ingot::gateway {

class Client {
 public:
  virtual ~Client() = default;
  virtual absl::StatusOr<v1::GatewayStatusResponse> Status() = 0;
  // Errors are v1::Gateway.EndUncalled's.
  virtual absl::StatusOr<v1::EndUncalledResponse> EndUncalled(const v1::EndUncalledRequest& request) = 0;
};

}  // namespace ingot::gateway
