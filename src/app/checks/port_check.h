// Ports of this machine.
#pragma once

#include <string>

#include "base/fd.h"
#include "base/status.h"

namespace ingot::app {

// A port that a server listens on later. While `holder` is open, the system does not give this port to programs that
// ask for any free port. The server must set SO_REUSEADDR, as all of Ingot's do: `holder` is bound but does not listen,
// so the server can bind the port.
struct HeldPort {
  int port = 0;
  base::Fd holder;
};

// Holds the port (0 = any free one) if this machine can listen on it at `host`. Errors begin with `key`.
// INVALID_ARGUMENT: `host` is unknown. UNAVAILABLE: the port is in use or forbidden.
absl::StatusOr<HeldPort> HoldPort(const std::string& key, const std::string& host, int port);

// Whether this machine can listen there now; errors as for HoldPort.
absl::Status CheckPort(const std::string& key, const std::string& host, int port);

}  // namespace ingot::app
