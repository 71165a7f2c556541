// Starts and stops an episode's MCP servers (mcp_servers.h) and services, and renders them for configuration files.
// Used by the episode's thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "agents/mcp/mcp_bridge.h"
#include "agents/mcp/mcp_http.h"
#include "agents/mcp/mcp_servers.h"
#include "agents/recipe.h"
#include "base/status.h"
#include "sandbox/substrate.h"

namespace ingot::agents {

// Returns FAILED_PRECONDITION if sandboxes with this probe result cannot run the recipe's servers. Errors name the
// server.
absl::Status CheckServersReach(const RecipeOptions& recipe, const sandbox::ProbeResult& probe_result);

class EpisodeServers {
 public:
  // Checks whether a server answers. OK = it does; INTERNAL = it never will; any other error = it may later.
  using Greeting = absl::Status (*)(http::ClientRequest request);

  // Opens connections to remote servers. `bridge` is null if sandboxes share the machine's network.
  absl::Status Declare(const Recipe& recipe, const sandbox::Variables& variables, sandbox::Sandbox& sandbox,
                       McpBridge* bridge);

  // Returns ${mcp} as JSON. Valid for the lifetime of this object.
  const std::string& text() const { return text_; }

  // Starts the services and the servers that listen inside the sandbox, and checks that all of them answer. `like` has
  // the agent's environment and working directory. No other command may run in the sandbox until the agent starts.
  // Errors name the server.
  absl::Status Start(const Recipe& recipe, const sandbox::Command& like, sandbox::Sandbox& sandbox,
                     const sandbox::Cancellation* cancel);

  // After Start fails, returns "mcp" or "service".
  const std::string& failed_kind() const { return failed_kind_; }

 private:
  // Checks a remote server or a server over stdin.
  absl::Status CheckNonStdio(const Recipe& recipe, const StartedMcpServer& server, bool check,
                             const sandbox::Command& like, sandbox::Sandbox& sandbox,
                             const sandbox::Cancellation* cancel) const;
  absl::Status StartListening(const Recipe& recipe, const StartedMcpServer& server, bool check,
                              const sandbox::Command& like, sandbox::Sandbox& sandbox,
                              const sandbox::Cancellation* cancel, Greeting greet);

  std::string failed_kind_;
  std::vector<StartedMcpServer> servers_, services_;
  std::vector<McpBridge::Way> ways_;
  std::vector<sandbox::Companion> companions_;
  std::string text_;
};

}  // namespace ingot::agents
