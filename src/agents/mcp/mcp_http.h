// Whether a server answers: greetings of MCP's streamable HTTP transport, and of services.
#pragma once

#include "base/status.h"
#include "http/client.h"

namespace ingot::agents {

// Whether whoever listens at `url` answers a GET. UNAVAILABLE: nobody does, or with a status of 500 or above; it may yet.
absl::Status GreetService(http::ClientRequest request);

// Begins a session and ends it again: the server at `url` answers `initialize`. UNAVAILABLE: nobody listens there; it may yet.
// INTERNAL: it answered something else, which the message says.
absl::Status GreetMcpServer(http::ClientRequest request);

}  // namespace ingot::agents
