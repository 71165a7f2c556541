// Controls access to a run's page, which requires a key. A browser receives the key as a cookie in exchange for a
// one-time token. The terminal prints a link that contains the token. Programs send the key as Authorization: Bearer.
// Thread safe.
#pragma once

#include <deque>
#include <string>
#include <string_view>

#include "base/mutex.h"
#include "http/handler.h"

namespace ingot::view {

class Access {
 public:
  // `key` is an additional key accepted as a bearer token, such as the run's admin key; empty = none.
  explicit Access(std::string key = "");

  // Returns a new token. If there are more than kMaxTokens unused tokens, the oldest becomes invalid.
  std::string NewToken();
  // Returns true if the token is valid, and invalidates it.
  bool Redeem(std::string_view token);

  bool Allows(const http::RequestHead& head) const;
  // Returns the Set-Cookie value that gives a browser access. `secure` is true if the page is served over TLS.
  std::string Cookie(bool secure) const;

  static constexpr size_t kMaxTokens = 16;

 private:
  const std::string own_key_, other_key_;
  const std::string cookie_;  // the cookie's name, unique because cookies are shared across a host's ports
  base::Mutex mu_;
  std::deque<std::string> tokens_ ABSL_GUARDED_BY(mu_);
};

}  // namespace ingot::view
