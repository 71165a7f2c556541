// Checks and reserves TCP ports on this machine.
#pragma once

#include <string>

#include "base/fd.h"
#include "base/status.h"

namespace ingot::app {

// A port reserved for a server that will listen on it later. While `holder` is open, the system does not assign this
// port to programs that request any free port. `holder` is bound but does not listen, so a server that sets
// SO_REUSEADDR can still bind the port. All of Ingot's servers set it.
struct HeldPort {
  int port = 0;
  base::Fd holder;
};

// Reserves the port (0 = any free port) if this machine can listen on it at `host`. Errors begin with `key`. Returns
// INVALID_ARGUMENT if `host` is unknown, and UNAVAILABLE if the port is in use or forbidden.
absl::StatusOr<HeldPort> HoldPort(const std::string& key, const std::string& host, int port);

// Checks whether this machine can listen on the port now. Returns the same errors as HoldPort.
absl::Status CheckPort(const std::string& key, const std::string& host, int port);

}  // namespace ingot::app
