// A Relay carries sandboxes' connections to a gateway in another process: it accepts on the sandboxes' listening
// sockets, connects to the gateway's address for each connection, and copies bytes both ways. One thread serves all of
// them. A gateway in this process accepts on the sockets itself, and nothing is copied. Thread safe.
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

  // At a time, of one listening socket, and so of one sandbox. More wait in the socket's backlog until one ends, so that a
  // sandbox cannot take the gateway's connections from others.
  static constexpr size_t kMaxConnections = 128;

  // Serves a listening socket until the returned object is destroyed. `url`: the gateway's, "http://HOST:PORT/.."; HOST
  // is an IP address or a name. INVALID_ARGUMENT: not such a URL. The relay outlives the object.
  absl::StatusOr<std::shared_ptr<void>> Serve(Fd listener, const std::string& url);

 private:
  struct Address;
  class Loop;
  Relay();
  const std::unique_ptr<Loop> loop_;
  std::thread thread_;
};

}  // namespace ingot::sandbox
