// Renders and checks a recipe's MCP servers, which give the agent tools over the Model Context Protocol. Templates in
// the recipe's `files` pass the servers to the scaffold. Each server must answer `initialize` before the agent starts.
//
//   command         uses stdin and stdout; the scaffold starts it in the sandbox, and Ingot starts it once beforehand
//   command, url    listens inside the sandbox, next to the agent; Ingot starts it (episode_servers.h)
//   url             a remote server; sandboxes with their own network reach it through Ingot (mcp_bridge.h)
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
  std::string list;  // the recipe's list: "mcp" or "services"
  McpServerOptions options;
  std::vector<sandbox::Template> command;
  std::map<std::string, sandbox::Template> env;
  sandbox::Template url;
  std::map<std::string, sandbox::Template> headers;
};

// A server for one episode.
struct StartedMcpServer {
  std::string name;
  std::vector<std::string> argv;  // empty = the server runs elsewhere
  std::string url = {};           // empty = the server uses stdin and stdout
  std::map<std::string, std::string> headers = {};
  std::map<std::string, std::string> env;  // added to the agent's environment
  double start_timeout_s = 0;
};

// Returns INVALID_ARGUMENT if a name is not a word or not unique, if a server has neither a command nor a url, or if a
// template uses a variable that is not in `known`.
absl::StatusOr<std::vector<McpServer>> ParseMcpServers(const std::vector<McpServerOptions>& options,
                                                       const std::vector<std::string>& known,
                                                       std::string_view list = "mcp");

// Returns the recipe's services as servers that listen inside the sandbox. The agent is not informed about them, and
// they may use any protocol.
absl::StatusOr<std::vector<McpServer>> ParseServices(const std::vector<ServiceOptions>& options,
                                                     const std::vector<std::string>& known);

// Returns INVALID_ARGUMENT if the task lacks a field or a url is invalid. The error names the server and the problem.
absl::StatusOr<std::vector<StartedMcpServer>> RenderMcpServers(const std::vector<McpServer>& servers,
                                                               const sandbox::Variables& variables);

// Returns the JSON variable ${mcp}, with the servers in the configuration formats of several scaffolds:
//   servers    {NAME: {"command", "args", "env"}} or {"type": "http", "url", "headers"}, `mcpServers` (Claude Code, ..)
//   gemini     the same, with {"httpUrl", "headers"} (qwen-code, Gemini CLI)
//   opencode   {NAME: {"type": "local", "command", "environment", "enabled", "timeout"}} or {"type": "remote", "url",
//              "headers", "oauth", "enabled", "timeout"}, OpenCode's `mcp`
//   codex      text: TOML tables [mcp_servers.NAME]; Codex waits for `required` servers before its first turn
base::json::object McpConfigurations(const std::vector<StartedMcpServer>& servers);

// Returns the bytes that start a session on a server's stdin. A server exits when its stdin ends.
std::string McpGreeting();

// Returns the body of a POST that starts a session: only `initialize`.
std::string McpInitialize();

// Returns OK if the message answers `initialize` and the session has started, NOT_FOUND for any other message, and
// INTERNAL with the reason if the server rejected it.
absl::Status CheckMcpMessage(std::string_view message);

// Returns OK if the session has started. Otherwise, returns the reason in one line without the server's name.
absl::Status CheckMcpAnswer(const sandbox::Outcome& outcome, const sandbox::Limits& limits);

}  // namespace ingot::agents
