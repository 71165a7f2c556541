// Rejects requests that a web page makes through the browser of a user who can reach this server. A page can reach a
// server on its reader's machine in two ways, and a browser's own rules stop neither:
//
//   DNS rebinding    the page's own name is pointed at 127.0.0.1: the request's Host is that name
//   cross-site       the page posts to http://127.0.0.1:PORT: the request's Origin is the page's
//
// So a server on a loopback address answers only to names that cannot be rebound: addresses, "localhost" and
// Options::allow_hosts. On other addresses any name may be the server's own; there a key protects it. Every server
// rejects an Origin that is neither the request's Host nor in Options::allow_origins. Programs send no Origin. Thread
// safe.
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
  // Why the request is rejected; nullopt = it is allowed.
  std::optional<Rejection> Check(const RequestHead& head) const;

 private:
  bool IsOwn(std::string_view host) const;

  bool checks_hosts_ = false;
  bool checks_origins_ = false;
  std::vector<std::string> hosts_, origins_;  // in lower case
};

// The host of a Host field, or of a URL, without user, port and brackets.
std::string_view HostOf(std::string_view authority);
std::string_view HostOfUrl(std::string_view url);

}  // namespace ingot::http
