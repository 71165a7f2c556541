// One GET to a server of this user's on a socket file, such as a launcher's.
#pragma once

#include <chrono>
#include <string>

#include "base/status.h"

namespace ingot::app {

struct SocketAnswer {
  int status = 0;  // HTTP's
  std::string body;
};

// A launcher answers within about 3 s (run_status.h). With the start of the command that asks, this is under 10 s.
constexpr std::chrono::milliseconds kAnswerWithin{8000};

// UNAVAILABLE: nobody listens at `path`, or what comes is no answer. DEADLINE_EXCEEDED: no answer came within `patience`; the
// error tells what the server's process does. Errors call the server `who`.
absl::StatusOr<SocketAnswer> AskSocket(const std::string& path, const std::string& target, const std::string& who,
                                       std::chrono::milliseconds patience = kAnswerWithin);

}  // namespace ingot::app
