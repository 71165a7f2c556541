// Forwards requests for episodes that another gateway serves. The other gateway answers a forwarded request like a
// local one and streams the answer back part by part.
//
//   client ─▶ PlacedExchange ─ Gateway::Place ─┬ here ───▶ HttpApi's exchange
//                                              └ a role ─▶ Peers::Forward ──rpc──▶ ForwardedRequest ─▶ HttpApi's exchange
//
// The next part is requested only after the client's system has accepted the previous part, so a slow client uses no
// memory here.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/status.h"
#include "gateway/gateway.h"
#include "http/handler.h"
#include "proto/gateway.pb.h"

namespace ingot::gateway {

// The inputs from HttpApi for an exchange whose request may belong to another gateway.
struct PlacedParts {
  http::RequestHead head;
  // Returns the role of the gateway that should answer, like Gateway::Place. May block.
  std::function<absl::StatusOr<std::string>()> place;
  // Answers the request on this gateway.
  std::function<http::Opening(http::RequestHead head)> here;
  // Formats an error in the request's dialect.
  std::function<http::Reply(const absl::Status& status)> reject;
};

// REQUIRES: `gateway` has peers and outlives the exchange.
std::shared_ptr<http::Exchange> MakePlacedExchange(Gateway& gateway, PlacedParts parts);

// A request that another gateway forwarded. TakePart and Abort must not be called concurrently.
class ForwardedRequest {
 public:
  // Begins the answer. `wake` is called on any thread when TakePart has new output. `client_gone` is
  // RequestHead::client_gone. REQUIRES: `gateway` outlives this object.
  ForwardedRequest(Gateway& gateway, const v1::ForwardRequest& request, std::function<bool()> client_gone,
                   std::function<void()> wake);
  ~ForwardedRequest();

  // Returns the output since the last call. If there is none, the part has no status or bytes and is not the last.
  v1::ForwardResponse TakePart();
  // Called when the client disconnected.
  void Abort();

 private:
  struct State;
  const std::unique_ptr<State> state_;
};

}  // namespace ingot::gateway
