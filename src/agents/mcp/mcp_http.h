// Checks that services and MCP servers with the streamable HTTP transport answer. Errors not listed here come from
// http::Client::Send. A URL may contain a key, so errors show only its host.
#pragma once

#include "base/status.h"
#include "http/client.h"

namespace ingot::agents {

// Returns OK if the server at `url` answers a GET, or UNAVAILABLE if there is no answer or its status is >= 500.
absl::Status GreetService(http::ClientRequest request);

// Starts and ends a session. Returns OK if the server at `url` answers `initialize`, UNAVAILABLE if no server listens
// there yet, and INTERNAL with the answer if it answered something else.
absl::Status GreetMcpServer(http::ClientRequest request);

}  // namespace ingot::agents
