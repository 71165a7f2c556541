// A recipe's MCP servers give the agent tools over the Model Context Protocol. Templates of the recipe's `files` name
// them to the scaffold. Each must answer `initialize` before the agent starts.
//
//   command         speaks over stdin and stdout; the scaffold starts it in the sandbox, and Ingot once before
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
  std::string list;  // of the recipe's: "mcp", or "services"
  McpServerOptions options;
  std::vector<sandbox::Template> command;
  std::map<std::string, sandbox::Template> env;
  sandbox::Template url;
  std::map<std::string, sandbox::Template> headers;
};

// A server of one episode.
struct StartedMcpServer {
  std::string name;
  std::vector<std::string> argv;  // empty = it runs elsewhere
  std::string url = {};           // empty = it speaks over stdin and stdout
  std::map<std::string, std::string> headers = {};
  std::map<std::string, std::string> env;  // added to the agent's
  double start_timeout_s = 0;
};

// INVALID_ARGUMENT: a name is not a word, or two are equal, a server has neither command nor url, or a template names a
// variable that is not `known`.
absl::StatusOr<std::vector<McpServer>> ParseMcpServers(const std::vector<McpServerOptions>& options,
                                                       const std::vector<std::string>& known,
                                                       std::string_view list = "mcp");

// The recipe's services as servers that listen inside the sandbox: no client names them, and they may speak any
// protocol.
absl::StatusOr<std::vector<McpServer>> ParseServices(const std::vector<ServiceOptions>& options,
                                                     const std::vector<std::string>& known);

// INVALID_ARGUMENT names the server, and the field that the task lacks or what is wrong with its url.
absl::StatusOr<std::vector<StartedMcpServer>> RenderMcpServers(const std::vector<McpServer>& servers,
                                                               const sandbox::Variables& variables);

// The servers in the formats of scaffolds' configuration files, as the JSON variable ${mcp}:
//   servers    {NAME: {"command", "args", "env"}} or {"type": "http", "url", "headers"}, `mcpServers` (Claude Code, ..)
//   gemini     the same, with {"httpUrl", "headers"} (qwen-code, Gemini CLI)
//   opencode   {NAME: {"type": "local", "command", "environment", "enabled", "timeout"}} or {"type": "remote", "url",
//              "headers", "oauth", "enabled", "timeout"}, OpenCode's `mcp`
//   codex      text: TOML tables [mcp_servers.NAME]; Codex waits for `required` servers before its first turn
base::json::object McpConfigurations(const std::vector<StartedMcpServer>& servers);

// The bytes on a server's stdin that begin a session. A server ends when they end.
std::string McpGreeting();

// The same as the body of a POST: only `initialize`.
std::string McpInitialize();

// OK: the message answers `initialize`, and the session began. NOT_FOUND: another message. INTERNAL: the server
// rejected it; says why.
absl::Status CheckMcpMessage(std::string_view message);

// OK: the session began. Otherwise the reason, in a line without the server's name.
absl::Status CheckMcpAnswer(const sandbox::Outcome& outcome, const sandbox::Limits& limits);

}  // namespace ingot::agents
