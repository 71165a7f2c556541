// Parses the head of an HTTP request to an EgressProxy. Pure.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "sandbox/egress/egress_list.h"

namespace ingot::sandbox {

struct EgressRequest {
  bool is_tunnel = false;
  HostPort host;
  // The request to forward to the host, unused for tunnels. It has a relative target, a Host header with the host,
  // "Connection: close", and none of the headers meant for the proxy.
  std::string head;
};

// `head` ends with the empty line. Returns UNIMPLEMENTED for methods other than CONNECT, GET, and HEAD. Returns
// INVALID_ARGUMENT if it is not a proxy request, has a body, or has a header that is folded or has no name.
absl::StatusOr<EgressRequest> ParseEgressHead(std::string_view head);

}  // namespace ingot::sandbox
