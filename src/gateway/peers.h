// Provides access to the run's other gateways. Each episode is served by one gateway, but its requests may reach any
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
  // An answer in progress on another gateway. The destructor cancels it, and no parts arrive after that.
  class ForwardedCall {
   public:
    virtual ~ForwardedCall() = default;
    // Requests the next part. REQUIRES: the previous part has arrived and was not the last.
    virtual void Next() = 0;
  };
  // Called on one of the Peers threads. An error is the last part and means that the other gateway is gone or
  // unreachable.
  using OnPart = std::function<void(absl::StatusOr<v1::ForwardResponse>)>;

  virtual ~Peers() = default;
  // Returns the roles of the live gateways, as last reported by the registry. Returns an error if they are unknown.
  // Must not block because it is called while serving requests.
  virtual absl::StatusOr<std::vector<std::string>> Present() = 0;
  // Returns the roles of all other gateways in the run, including those that are down.
  virtual std::vector<std::string> Others() const = 0;
  // Sends a query to a gateway and waits for the response, up to the configured deadline.
  virtual absl::StatusOr<v1::ServesResponse> Serves(const std::string& role, const v1::ServesRequest& request) = 0;
  // Forwards a request. The first part arrives without Next. `client_gone` becomes RequestHead::client_gone on the
  // other gateway. It may be null.
  virtual std::unique_ptr<ForwardedCall> Forward(const std::string& role, v1::ForwardRequest request,
                                                 std::function<bool()> client_gone, OnPart on_part) = 0;
};

// Returns a process's Episode.gateway value: its role and a suffix that is unique among the role's processes.
inline std::string GatewayName(const std::string& role, const std::string& start) { return role + ":" + start; }
inline std::string RoleOfGateway(const std::string& name) { return name.substr(0, name.find(':')); }

}  // namespace ingot::gateway
