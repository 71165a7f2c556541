// How a gateway reaches the run's other gateways. One gateway serves each episode; requests for it may come to any
// gateway. The app supplies the implementation (grpc_peers.h). Thread safe.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "proto/gateway.pb.h"

namespace ingot::gateway {

class Peers {
 public:
  // An answer in progress at another gateway. The destructor abandons it; no part comes after that.
  class ForwardedCall {
   public:
    virtual ~ForwardedCall() = default;
    // Asks for the next part. REQUIRES: the previous part has come, and was not the last.
    virtual void Next() = 0;
  };
  // Called on a thread of the peers. An error is the last part: the other gateway is gone, or cannot be reached.
  using OnPart = std::function<void(absl::StatusOr<v1::ForwardResponse>)>;

  virtual ~Peers() = default;
  // The roles of the live gateways, as last reported by the registry. Does not block: it is called while serving
  // requests. An error: unknown.
  virtual absl::StatusOr<std::vector<std::string>> Present() = 0;
  // The roles of all other gateways of the run, including gateways that are down.
  virtual std::vector<std::string> Others() const = 0;
  // Asks a gateway, and waits at most the peers' deadline for its answer.
  virtual absl::StatusOr<v1::ServesResponse> Serves(const std::string& role, const v1::ServesRequest& request) = 0;
  // Forwards a request. The first part comes without Next. `client_gone`: as RequestHead::client_gone, for the other
  // gateway; may be null.
  virtual std::unique_ptr<ForwardedCall> Forward(const std::string& role, v1::ForwardRequest request,
                                                 std::function<bool()> client_gone, OnPart on_part) = 0;
};

// Episode.gateway of a process: its role, and a suffix unique among the role's processes.
inline std::string GatewayName(const std::string& role, const std::string& start) { return role + ":" + start; }
inline std::string RoleOfGateway(const std::string& name) { return name.substr(0, name.find(':')); }

}  // namespace ingot::gateway
