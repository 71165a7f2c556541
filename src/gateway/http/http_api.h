// The gateway's HTTP API: an http::Handler that turns requests into calls of Gateway, and errors into a dialect's
// words.
//
//   POST /v1{path of any dialect}   GET /v1/models   GET /v1/models/{id}   HEAD /       the same under /s/{episode}, and
//                                                                                       under Google's /v1beta
//   POST /ingot/v1/episodes         POST /ingot/v1/episodes/{id}/reward    POST /ingot/v1/episodes/{id}/end
//   GET /ingot/v1/status   GET /healthz and /health   GET /version
//
// Clients join their base URL and a path, and differ in which of the two has the /v1 and the slash: /v1 and the slash
// may be missing or doubled. Every answer names its request in x-request-id and request-id: a call's id if a model
// answers.
//
// With several gateways a request for another gateway's episode is forwarded to it (http_forward.h).
//
// Thread safe. Work that blocks runs on the gateway's workers.
#pragma once

#include <string_view>

#include "gateway/gateway.h"
#include "http/handler.h"

namespace ingot::gateway {

class HttpApi final : public http::Handler {
 public:
  // `gateway` outlives this and its exchanges.
  explicit HttpApi(Gateway& gateway) : gateway_(gateway) {}

  http::Opening Head(http::RequestHead head) override;
  // As Head, for a request that must be answered here: it was forwarded, or its episode is served here.
  http::Opening Answer(http::RequestHead head);
  http::Reply Reject(std::string_view target, const http::Rejection& why) override;

 private:
  Gateway& gateway_;
};

}  // namespace ingot::gateway
