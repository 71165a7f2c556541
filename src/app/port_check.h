// Ports of this machine.
#pragma once

#include <string>

#include "base/status.h"

namespace ingot::app {

// The port, or a free one for 0, at which this machine can listen at `host`. `key` begins errors. INVALID_ARGUMENT: `host`
// is unknown. UNAVAILABLE: the port is in use or forbidden.
absl::StatusOr<int> FindPort(const std::string& key, const std::string& host, int port);

}  // namespace ingot::app
