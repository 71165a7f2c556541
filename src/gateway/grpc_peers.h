// Connects to the other gateways over gRPC.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gateway/peers.h"
#include "proto/grpc_channel.h"

namespace ingot::gateway {

struct GrpcPeersOptions {
  std::map<std::string, v1::RoleChannel> channels;  // by role; this process's own role is optional
  // See Peers::Present.
  std::function<absl::StatusOr<std::vector<std::string>>()> present;
  std::chrono::milliseconds deadline{3000};  // for the response to Peers::Serves
};

// A forwarded request occupies a thread until its answer ends. REQUIRES: all ForwardedCalls are destroyed before the
// returned object.
std::unique_ptr<Peers> MakeGrpcPeers(GrpcPeersOptions options);

}  // namespace ingot::gateway
