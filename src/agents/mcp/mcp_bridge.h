// Lets sandboxes with their own network reach remote MCP servers. Like the gateway, the bridge listens inside the
// sandbox. It forwards each request to the server, over TLS if the URL is https.
//
//   agent ── http://127.0.0.1:PORT/TOKEN ──▶ bridge (Ingot) ── url, with the recipe's headers ──▶ MCP server
//
// It forwards only the headers defined by MCP's streamable HTTP transport and adds the recipe's headers, so their
// secrets never enter the sandbox. A sandbox can reach only this one URL, regardless of the path it requests.
// Server-sent events are forwarded as they arrive. Each request in flight uses a thread, up to kMaxRequests per sandbox
// and server. Thread safe.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "base/status.h"
#include "sandbox/substrate.h"

namespace ingot::agents {

class McpBridge {
 public:
  static constexpr int kMaxRequests = 32;

  // Returns UNAVAILABLE if it cannot listen.
  static absl::StatusOr<std::unique_ptr<McpBridge>> Make();
  ~McpBridge();  // ends requests in flight
  McpBridge(const McpBridge&) = delete;
  McpBridge& operator=(const McpBridge&) = delete;

  struct Way {
    std::string url;             // URL inside the sandbox
    std::shared_ptr<void> open;  // destroying it closes the connection and ends its requests
  };
  absl::StatusOr<Way> Open(sandbox::Sandbox& sandbox, const std::string& url,
                           const std::map<std::string, std::string>& headers);

 private:
  class Impl;
  explicit McpBridge(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace ingot::agents
