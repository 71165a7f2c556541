// One request to a server of this user on a socket file, such as a launcher's.
#pragma once

#include <chrono>
#include <string>

#include "base/status.h"
#include "http/client.h"

namespace ingot::app {

// A launcher answers within about 3 s (run_status.h). With the start of the command that asks, this is under 10 s.
constexpr std::chrono::milliseconds kAnswerWithin{8000};

// UNAVAILABLE: no server listens at `path`, or its response is invalid. DEADLINE_EXCEEDED: no answer came within the
// timeout; the error says what the server's process does. Errors call the server `who`. `request`: its url is only the
// target.
absl::StatusOr<http::Answer> AskSocket(const std::string& path, http::ClientRequest request, const std::string& who);
// A GET.
absl::StatusOr<http::Answer> AskSocket(const std::string& path, const std::string& target, const std::string& who,
                                       std::chrono::milliseconds timeout = kAnswerWithin);

}  // namespace ingot::app
