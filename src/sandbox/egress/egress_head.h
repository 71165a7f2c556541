// The head of a request to an EgressProxy. Pure.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "sandbox/egress/egress_list.h"

namespace ingot::sandbox {

struct EgressRequest {
  bool is_tunnel = false;
  HostPort host;
  // For the host, not of a tunnel: the request with a relative target and the host's own name, without the headers that
  // are for the proxy, and with "Connection: close".
  std::string head;
};

// `head`: up to the empty line, which it includes. UNIMPLEMENTED: another method than CONNECT, GET and HEAD.
// INVALID_ARGUMENT: no request to a proxy, one with a body, or a header that is folded or has no name.
absl::StatusOr<EgressRequest> ParseEgressHead(std::string_view head);

}  // namespace ingot::sandbox
