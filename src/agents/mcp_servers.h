// MCP servers of a recipe: programs that speak the Model Context Protocol over stdin and stdout and give the agent
// tools. The scaffold starts them, as it does with servers of its own configuration: templates of the recipe's `files`
// put them there. They run in the episode's room and end with it. Before the agent, each is started once and must
// answer `initialize`.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "agents/options.h"
#include "base/json.h"
#include "base/status.h"
#include "sandbox/process.h"
#include "sandbox/template.h"

namespace ingot::agents {

// A server's templates.
struct McpServer {
  McpServerOptions options;
  std::vector<sandbox::Template> command;
  std::map<std::string, sandbox::Template> env;
};

// A server as an episode starts it.
struct StartedMcpServer {
  std::string name;
  std::vector<std::string> argv;
  std::map<std::string, std::string> env;  // beside that of the agent
  double start_timeout_s = 0;
};

// INVALID_ARGUMENT: a name is not a word, or two are equal, or a template names a variable that is not `known`.
absl::StatusOr<std::vector<McpServer>> ParseMcpServers(const std::vector<McpServerOptions>& options,
                                                       const std::vector<std::string>& known);

// INVALID_ARGUMENT names the server and the field that the task lacks.
absl::StatusOr<std::vector<StartedMcpServer>> RenderMcpServers(const std::vector<McpServer>& servers,
                                                               const sandbox::Variables& variables);

// The servers in the words of scaffolds' configuration files, as the JSON variable ${mcp}:
//   servers    {NAME: {"command", "args", "env"}}, the value of `mcpServers` (qwen-code, Gemini CLI, Claude Code, ..)
//   opencode   {NAME: {"type": "local", "command", "environment", "enabled", "timeout"}}, OpenCode's `mcp`
//   codex      text: TOML tables [mcp_servers.NAME]; Codex waits for `required` servers before its first turn
base::json::object McpConfigurations(const std::vector<StartedMcpServer>& servers);

// The bytes on a server's stdin that begin a session. A server ends when they end.
std::string McpGreeting();

// OK: the session began. Otherwise the reason, in a line without the server's name.
absl::Status CheckMcpAnswer(const sandbox::Outcome& outcome, const sandbox::Limits& limits);

}  // namespace ingot::agents
