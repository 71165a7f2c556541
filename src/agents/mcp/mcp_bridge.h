// An McpBridge lets sandboxes with their own network reach remote MCP servers. It listens inside the sandbox, as the
// gateway does, and forwards each request to the server, over TLS if the address is https.
//
//   agent ── http://127.0.0.1:PORT/TOKEN ──▶ bridge (Ingot) ── url, with the recipe's headers ──▶ MCP server
//
// It passes only the headers of MCP's streamable HTTP transport, and adds the recipe's headers, whose secrets never
// enter the sandbox. A sandbox reaches only the one address, whatever path it asks for. Server-sent events pass as they
// arrive. Each waiting request takes a thread, at most kMostRequests per sandbox and server. Thread safe.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "base/status.h"
#include "sandbox/substrate.h"

namespace ingot::agents {

class McpBridge {
 public:
  static constexpr int kMostRequests = 32;

  // UNAVAILABLE: it cannot listen.
  static absl::StatusOr<std::unique_ptr<McpBridge>> Make();
  ~McpBridge();  // ends requests in flight
  McpBridge(const McpBridge&) = delete;
  McpBridge& operator=(const McpBridge&) = delete;

  struct Way {
    std::string url;             // inside the sandbox
    std::shared_ptr<void> open;  // destroying it closes the way and ends its requests
  };
  absl::StatusOr<Way> Open(sandbox::Sandbox& sandbox, const std::string& url,
                           const std::map<std::string, std::string>& headers);

 private:
  class Impl;
  explicit McpBridge(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace ingot::agents
