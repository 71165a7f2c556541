// Relays connections from sandboxes to a gateway in another process. It accepts connections on the sandboxes' listening
// sockets, connects to the gateway once per connection, and copies bytes in both directions on one thread. A gateway in
// this process accepts connections on the sockets itself, so it needs no relay. Thread safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "base/mutex.h"
#include "base/status.h"
#include "sandbox/spawn.h"

namespace ingot::sandbox {

class Relay {
 public:
  static absl::StatusOr<std::shared_ptr<Relay>> Start();
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  // The maximum number of open connections per listening socket, that is, per sandbox. Further connections wait in the
  // socket's backlog, so one sandbox cannot exhaust the gateway's connections.
  static constexpr size_t kMaxConnections = 128;

  // Serves a listening socket until the returned object is destroyed. `url` is the gateway's URL,
  // "http://HOST:PORT/..", where HOST is an IP address or a name. Returns INVALID_ARGUMENT if the URL has a different
  // form. REQUIRES: the relay outlives the returned object.
  absl::StatusOr<std::shared_ptr<void>> Serve(Fd listener, const std::string& url);

 private:
  struct Address;
  class Loop;
  Relay();
  const std::unique_ptr<Loop> loop_;
  std::thread thread_;
};

}  // namespace ingot::sandbox
