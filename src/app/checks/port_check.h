// Ports of this machine.
#pragma once

#include <string>

#include "base/fd.h"
#include "base/status.h"

namespace ingot::app {

// A port that a server listens at later. As long as `holder` is open, the system gives the port to nobody who asks for any.
// The server must set SO_REUSEADDR, as all of Ingot's do: `holder` is bound and does not listen, so that it may bind the port.
struct HeldPort {
  int port = 0;
  base::Fd holder;
};

// Holds the port, or a free one for 0, at which this machine can listen at `host`. `key` begins errors. INVALID_ARGUMENT:
// `host` is unknown. UNAVAILABLE: the port is in use or forbidden.
absl::StatusOr<HeldPort> HoldPort(const std::string& key, const std::string& host, int port);

// Whether this machine can listen there now; errors are those of HoldPort.
absl::Status CheckPort(const std::string& key, const std::string& host, int port);

}  // namespace ingot::app
