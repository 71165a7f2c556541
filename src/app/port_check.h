// Whether a server of this machine could listen at a port.
#pragma once

#include <string>

#include "base/status.h"

namespace ingot::app {

// INVALID_ARGUMENT: `host` is unknown. UNAVAILABLE: the port is taken or forbidden. Errors begin with `key`. Port 0 is free.
absl::Status CheckPortFree(const std::string& key, const std::string& host, int port);

}  // namespace ingot::app
