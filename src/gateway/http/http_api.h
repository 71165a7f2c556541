// The gateway's HTTP API: an http::Handler that turns requests into Gateway calls, and errors into replies in the
// request's dialect.
//
//   POST /v1{path of any dialect}   GET /v1/models   GET /v1/models/{id}   HEAD /       the same under /s/{episode}, and
//                                                                                       under Google's /v1beta
//   POST /ingot/v1/episodes         POST /ingot/v1/episodes/{id}/reward    POST /ingot/v1/episodes/{id}/end
//   POST /v1/feedback   GET /ingot/v1/status   GET /healthz and /health   GET /version
//
// Clients concatenate a base URL and a path but disagree about which of them contains /v1 and the slash. So the API
// accepts a missing or doubled /v1 or slash. Every answer has x-request-id and request-id headers, which contain the
// call id if a model answers.
//
// With several gateways, a request for another gateway's episode is forwarded (http_forward.h).
//
// Thread safe. Blocking work runs on the gateway's workers.
#pragma once

#include <string_view>

#include "gateway/gateway.h"
#include "http/handler.h"

namespace ingot::gateway {

class HttpApi final : public http::Handler {
 public:
  // `gateway` must outlive this object and its exchanges.
  explicit HttpApi(Gateway& gateway) : gateway_(gateway) {}

  http::Opening Head(http::RequestHead head) override;
  // Like Head, but for a request that must be answered here because it was forwarded or because its episode is served
  // here.
  http::Opening Answer(http::RequestHead head);
  http::Reply Reject(std::string_view target, const http::Rejection& why) override;

 private:
  Gateway& gateway_;
};

}  // namespace ingot::gateway
