// An McpBridge lets sandboxes with a network of their own reach MCP servers elsewhere. It listens inside the sandbox, as the gateway
// does, and repeats each request to the server, over TLS where its address is https.
//
//   agent ── http://127.0.0.1:PORT/TOKEN ──▶ bridge (Ingot) ── url, with the recipe's headers ──▶ MCP server
//
// Of a request only the headers of MCP's streamable HTTP transport pass, and the recipe's are added: secrets in them never
// enter the sandbox. A sandbox reaches the one address, whatever path it asks for. Server-sent events pass as they come.
// Each request that waits takes a thread, at most kMostRequests of one sandbox and server. Thread safe.
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
    std::shared_ptr<void> open;  // the way is closed, and its requests end, when it goes
  };
  absl::StatusOr<Way> Open(sandbox::Sandbox& sandbox, const std::string& url,
                           const std::map<std::string, std::string>& headers);

 private:
  class Impl;
  explicit McpBridge(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace ingot::agents
