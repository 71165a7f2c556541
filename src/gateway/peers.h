// The gateways of a run, as one of them reaches the others. Each episode is served by one gateway; requests for it may come
// to any. The app supplies the implementation (grpc_peers.h). Thread safe.
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
  // An answer on its way from another gateway. The destructor gives it up; no part comes after it.
  class ForwardedCall {
   public:
    virtual ~ForwardedCall() = default;
    // Asks for the next part. REQUIRES: the part before it has come, and was not the last.
    virtual void Next() = 0;
  };
  // Called by a thread of the peers. An error is the last part: the other gateway is gone, or cannot be reached.
  using OnPart = std::function<void(absl::StatusOr<v1::ForwardResponse>)>;

  virtual ~Peers() = default;
  // The roles of the gateways that are there, as the registry told last. Does not block: it is asked on the way of requests.
  // An error: nobody knows.
  virtual absl::StatusOr<std::vector<std::string>> Present() = 0;
  // The roles of all other gateways of the run, also of those that are not there now.
  virtual std::vector<std::string> Others() const = 0;
  // Asks a gateway, and waits for its answer no longer than the peers' deadline.
  virtual absl::StatusOr<v1::ServesResponse> Serves(const std::string& role, const v1::ServesRequest& request) = 0;
  // Passes a request on. The first part comes without Next.
  virtual std::unique_ptr<ForwardedCall> Forward(const std::string& role, v1::ForwardRequest request,
                                                 OnPart on_part) = 0;
};

// Episode.gateway of a process: its role, and what tells it from the role's other processes.
inline std::string GatewayName(const std::string& role, const std::string& start) { return role + ":" + start; }
inline std::string RoleOfGateway(const std::string& name) { return name.substr(0, name.find(':')); }

}  // namespace ingot::gateway
