// Checks whether a server answers: greetings for MCP's streamable HTTP transport, and for services. Other errors are
// those of http::Client::Send. A URL may hold a key: errors show only its host.
#pragma once

#include "base/status.h"
#include "http/client.h"

namespace ingot::agents {

// OK: the server at `url` answers a GET. UNAVAILABLE: no answer, or a status of 500 or above; it may answer later.
absl::Status GreetService(http::ClientRequest request);

// Begins a session and ends it again. OK: the server at `url` answers `initialize`. UNAVAILABLE: no server listens
// there; it may later. INTERNAL: it answered something else, which the message shows.
absl::Status GreetMcpServer(http::ClientRequest request);

}  // namespace ingot::agents
