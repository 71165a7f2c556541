// One GET to a server of this user's on a socket file, such as a launcher's.
#pragma once

#include <string>

#include "base/status.h"

namespace ingot::app {

struct SocketAnswer {
  int status = 0;  // HTTP's
  std::string body;
};

// Waits for a minute at most. UNAVAILABLE: nothing answers at `path`; the error calls the server `who`.
absl::StatusOr<SocketAnswer> AskSocket(const std::string& path, const std::string& target, const std::string& who);

}  // namespace ingot::app
