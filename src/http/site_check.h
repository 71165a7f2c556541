// Rejects requests that a web page sends through a user's browser. A page can reach a server on its user's machine in
// two ways that browsers do not prevent:
//
//   DNS rebinding    the page's own name resolves to 127.0.0.1, so the request's Host is that name
//   cross-site       the page posts to http://127.0.0.1:PORT, so the request's Origin is the page's
//
// So a server on a loopback address accepts only names that cannot be rebound: addresses, "localhost", and
// Options::allow_hosts. On other addresses, any name may belong to the server, and a key protects it. Every server
// rejects an Origin that is neither the request's Host nor in Options::allow_origins. Programs do not send an Origin.
// Thread safe.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "http/handler.h"
#include "http/options.h"

namespace ingot::http {

class SiteCheck {
 public:
  explicit SiteCheck(const Options& options);
  // Returns why the request is rejected, or nullopt if it is allowed.
  std::optional<Rejection> Check(const RequestHead& head) const;

 private:
  bool IsOwn(std::string_view host) const;

  bool checks_hosts_ = false;
  bool checks_origins_ = false;
  std::vector<std::string> hosts_, origins_;  // in lowercase
};

// Return the host in a Host header or a URL, without user, port, and brackets.
std::string_view HostOf(std::string_view authority);
std::string_view HostOfUrl(std::string_view url);

}  // namespace ingot::http
