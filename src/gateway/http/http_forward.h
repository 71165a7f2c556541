// Requests for episodes that another gateway serves. The gateway that a request reaches forwards it; the other gateway
// answers it like a local request, and the answer streams back part by part.
//
//   client ─▶ PlacedExchange ─ Gateway::Place ─┬ here ───▶ HttpApi's exchange
//                                              └ a role ─▶ Peers::Forward ──rpc──▶ ForwardedRequest ─▶ HttpApi's exchange
//
// Each part is requested once the client's system took the previous part, so that a slow client fills no memory here.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/status.h"
#include "gateway/gateway.h"
#include "http/handler.h"
#include "proto/gateway.pb.h"

namespace ingot::gateway {

// What an exchange needs from HttpApi if its request may be for another gateway.
struct PlacedParts {
  http::RequestHead head;
  // The role of the gateway that should answer, as Gateway::Place; may block.
  std::function<absl::StatusOr<std::string>()> place;
  // The answer of this gateway.
  std::function<http::Opening(http::RequestHead head)> here;
  // An error in the words of the request's dialect.
  std::function<http::Reply(const absl::Status& status)> reject;
};

// REQUIRES: `gateway`, with peers, outlives the exchange.
std::shared_ptr<http::Exchange> MakePlacedExchange(Gateway& gateway, PlacedParts parts);

// A request forwarded by another gateway. Thread safe for one caller of TakePart and Abort.
class ForwardedRequest {
 public:
  // Begins the answer. `wake`: TakePart has something new; called by any thread. `client_gone`: as
  // RequestHead::client_gone. REQUIRES: `gateway` outlives it.
  ForwardedRequest(Gateway& gateway, const v1::ForwardRequest& request, std::function<bool()> client_gone,
                   std::function<void()> wake);
  ~ForwardedRequest();

  // The news since the last call; nothing new = no status, no bytes and no end.
  v1::ForwardResponse TakePart();
  // The client went away.
  void Abort();

 private:
  struct State;
  const std::unique_ptr<State> state_;
};

}  // namespace ingot::gateway
