// Sends one request to a server on a socket file, such as a launcher of the same user.
#pragma once

#include <chrono>
#include <string>

#include "base/status.h"
#include "http/client.h"

namespace ingot::app {

// A launcher answers within about 3 s (run_status.h). With this timeout, a command that calls it takes less than 10 s.
constexpr std::chrono::milliseconds kAnswerWithin{8000};

// Only the target is set in the url of `request`. Returns UNAVAILABLE if no server listens at `path` or its response is
// invalid. Returns DEADLINE_EXCEEDED if no response arrived within the timeout; the error describes the state of the
// server's process. Errors call the server `who`.
absl::StatusOr<http::Answer> AskSocket(const std::string& path, http::ClientRequest request, const std::string& who);
// Same as above, for a GET request.
absl::StatusOr<http::Answer> AskSocket(const std::string& path, const std::string& target, const std::string& who,
                                       std::chrono::milliseconds timeout = kAnswerWithin);

}  // namespace ingot::app
