// Access to a run's page requires its key. A browser gets the key as a cookie for a one-time token; the terminal prints
// the link with the token. Programs send the key as Authorization: Bearer.
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
  // `key`: another key that Bearer accepts, such as the run's admin key; empty = none.
  explicit Access(std::string key = "");

  // A new token. With more than kMostTokens unused tokens, the oldest becomes void.
  std::string NewToken();
  // True once for each token; then the token is void.
  bool Redeem(std::string_view token);

  bool Allows(const http::RequestHead& head) const;
  // The value of Set-Cookie that admits a browser. `secure`: the page is served over TLS.
  std::string Cookie(bool secure) const;

  static constexpr size_t kMostTokens = 16;

 private:
  const std::string own_key_, other_key_;
  const std::string cookie_;  // its name: cookies of one host are shared by all its ports
  base::Mutex mu_;
  std::deque<std::string> tokens_ ABSL_GUARDED_BY(mu_);
};

}  // namespace ingot::view
