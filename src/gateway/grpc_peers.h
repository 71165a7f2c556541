// The other gateways over gRPC.
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
  std::map<std::string, v1::RoleChannel> channels;  // by role; this process's own role is not needed
  // Peers::Present.
  std::function<absl::StatusOr<std::vector<std::string>>()> present;
  std::chrono::milliseconds deadline{3000};  // for the answer of Peers::Serves
};

// A forwarded request holds a thread until its answer has ended. REQUIRES: its Forwarded are destroyed before it.
std::unique_ptr<Peers> MakeGrpcPeers(GrpcPeersOptions options);

}  // namespace ingot::gateway
