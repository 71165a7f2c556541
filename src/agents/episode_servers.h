// The MCP servers (mcp_servers.h) and services of one episode: their text for configuration files, their start and
// their end. Used by the episode's thread.
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

// FAILED_PRECONDITION: sandboxes with this probe result cannot have the recipe's servers. The message names the server.
absl::Status CheckServersReach(const RecipeOptions& recipe, const sandbox::ProbeResult& probe_result);

class EpisodeServers {
 public:
  // Asks a server whether it answers: OK; INTERNAL = it never will; another error = it may later.
  using Greeting = absl::Status (*)(http::ClientRequest request);

  // Opens connections to remote servers. `bridge`: null = sandboxes share the machine's network.
  absl::Status Declare(const Recipe& recipe, const sandbox::Variables& variables, sandbox::Sandbox& sandbox,
                       McpBridge* bridge);

  // ${mcp} as JSON; lasts as long as this object.
  const std::string& text() const { return text_; }

  // Starts services and servers that listen inside the sandbox, and checks that all of them answer. `like` has the
  // agent's environment and working folder. No other command may run in the sandbox before the agent. The error names
  // the server.
  absl::Status Start(const Recipe& recipe, const sandbox::Command& like, sandbox::Sandbox& sandbox,
                     const sandbox::Cancellation* cancel);

  // After an error of Start: "mcp" or "service".
  const std::string& failed_kind() const { return failed_kind_; }

 private:
  // A server over stdin, or a remote one.
  absl::Status AskOther(const Recipe& recipe, const StartedMcpServer& server, bool check, const sandbox::Command& like,
                        sandbox::Sandbox& sandbox, const sandbox::Cancellation* cancel) const;
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
