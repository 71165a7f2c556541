#include "agents/mcp_servers.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"

namespace ingot::agents {
namespace {

using base::json::array;
using base::json::object;
using base::json::value;

// The least that every server knows.
constexpr std::string_view kProtocol = "2024-11-05";
constexpr size_t kShownStderr = 400;

// Names are keys in JSON and TOML, and parts of tools' names.
bool IsWord(const std::string& name) {
  return !name.empty() && name.size() <= 64 && std::all_of(name.begin(), name.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-';
  });
}

// A TOML string is written as a JSON string.
std::string Toml(const std::string& text) {
  std::string quoted;
  base::AppendJsonString(text, quoted);
  return quoted;
}

int64_t WholeSeconds(const StartedMcpServer& server) { return static_cast<int64_t>(std::ceil(server.start_timeout_s)); }

std::string CodexTables(const std::vector<StartedMcpServer>& servers) {
  std::string toml;
  for (const StartedMcpServer& server : servers) {
    absl::StrAppend(&toml, "[mcp_servers.", server.name, "]\ncommand = ", Toml(server.argv[0]), "\nargs = [");
    for (size_t i = 1; i < server.argv.size(); ++i) absl::StrAppend(&toml, i > 1 ? ", " : "", Toml(server.argv[i]));
    absl::StrAppend(&toml, "]\nstartup_timeout_sec = ", WholeSeconds(server), "\nrequired = true\n");
    if (server.env.empty()) continue;
    absl::StrAppend(&toml, "[mcp_servers.", server.name, ".env]\n");
    for (const auto& [name, text] : server.env) absl::StrAppend(&toml, Toml(name), " = ", Toml(text), "\n");
  }
  return toml;
}

std::string ErrorOf(const value& answer) {
  const value* error = base::Find(answer, "error");
  if (error == nullptr) return "";
  const value* message = base::Find(*error, "message");
  return message != nullptr && message->is_string() ? std::string(message->get_string()) : base::PrintJson(*error);
}

}  // namespace

absl::StatusOr<std::vector<McpServer>> ParseMcpServers(const std::vector<McpServerOptions>& options,
                                                       const std::vector<std::string>& known) {
  std::vector<McpServer> servers;
  std::set<std::string> names;
  for (const McpServerOptions& each : options) {
    const std::string key = absl::StrCat("mcp '", each.name, "'");
    if (!IsWord(each.name)) {
      return absl::InvalidArgumentError(absl::StrCat(key, ": a name has letters, digits, - and _, and at most 64"));
    }
    if (!names.insert(each.name).second) return absl::InvalidArgumentError(absl::StrCat(key, " is declared twice"));
    if (each.command.empty()) return absl::InvalidArgumentError(absl::StrCat(key, ": command is empty"));
    if (!(each.start_timeout_s > 0 && each.start_timeout_s <= 1e6)) {
      return absl::InvalidArgumentError(absl::StrCat(key, ": start_timeout_s must be above 0 (and at most 1e6)"));
    }
    McpServer server{.options = each, .command = {}, .env = {}};
    for (const std::string& argument : each.command) {
      auto text = sandbox::Template::Parse(argument, known);
      if (!text.ok()) return base::Annotate(text.status(), absl::StrCat(key, ": command"));
      server.command.push_back(*std::move(text));
    }
    for (const auto& [name, written] : each.env) {
      auto text = sandbox::Template::Parse(written, known);
      if (!text.ok()) return base::Annotate(text.status(), absl::StrCat(key, ": env.", name));
      server.env.emplace(name, *std::move(text));
    }
    servers.push_back(std::move(server));
  }
  return servers;
}

absl::StatusOr<std::vector<StartedMcpServer>> RenderMcpServers(const std::vector<McpServer>& servers,
                                                               const sandbox::Variables& variables) {
  std::vector<StartedMcpServer> rendered;
  for (const McpServer& server : servers) {
    StartedMcpServer made{
        .name = server.options.name, .argv = {}, .env = {}, .start_timeout_s = server.options.start_timeout_s};
    const auto render = [&](const sandbox::Template& template_text) -> absl::StatusOr<std::string> {
      auto text = template_text.Render(variables);
      if (!text.ok()) return base::Annotate(text.status(), absl::StrCat("mcp '", server.options.name, "'"));
      return text;
    };
    for (const sandbox::Template& argument : server.command) {
      INGOT_ASSIGN_OR_RETURN(std::string text, render(argument));
      made.argv.push_back(std::move(text));
    }
    for (const auto& [name, written] : server.env) {
      INGOT_ASSIGN_OR_RETURN(made.env[name], render(written));
    }
    rendered.push_back(std::move(made));
  }
  return rendered;
}

object McpConfigurations(const std::vector<StartedMcpServer>& servers) {
  object plain, opencode;
  for (const StartedMcpServer& server : servers) {
    array command, args;
    object env;
    for (const std::string& word : server.argv) command.emplace_back(word);
    for (size_t i = 1; i < server.argv.size(); ++i) args.emplace_back(server.argv[i]);
    for (const auto& [name, text] : server.env) env[name] = text;
    opencode[server.name] = object{{"type", "local"},
                                   {"command", std::move(command)},
                                   {"environment", env},
                                   {"enabled", true},
                                   {"timeout", WholeSeconds(server) * 1000}};
    plain[server.name] = object{{"command", server.argv[0]}, {"args", std::move(args)}, {"env", std::move(env)}};
  }
  return {{"servers", std::move(plain)}, {"opencode", std::move(opencode)}, {"codex", CodexTables(servers)}};
}

std::string McpGreeting() {
  const object initialize = {{"jsonrpc", "2.0"},
                             {"id", 1},
                             {"method", "initialize"},
                             {"params", object{{"protocolVersion", kProtocol},
                                               {"capabilities", object{}},
                                               {"clientInfo", object{{"name", "ingot"}, {"version", "1"}}}}}};
  return absl::StrCat(base::PrintJson(initialize), "\n", R"({"jsonrpc":"2.0","method":"notifications/initialized"})",
                      "\n");
}

absl::Status CheckMcpAnswer(const sandbox::Outcome& outcome, const sandbox::Limits& limits) {
  for (const absl::string_view line : absl::StrSplit(outcome.out, '\n')) {
    const auto answer = base::ParseJson(std::string_view(line.data(), line.size()));
    if (!answer.ok()) continue;
    const value* id = base::Find(*answer, "id");
    if (id == nullptr || !id->is_int64() || id->get_int64() != 1) continue;
    if (base::Find(*answer, "result") != nullptr) return absl::OkStatus();
    return absl::InternalError(absl::StrCat("it refused to initialize: ", ErrorOf(*answer)));
  }
  std::string why = absl::StrCat("it did not answer and ", sandbox::Describe(outcome, limits));
  std::string shown(absl::StripAsciiWhitespace(outcome.err));
  if (shown.size() > kShownStderr) shown.erase(0, shown.size() - kShownStderr);
  std::replace_if(shown.begin(), shown.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; }, ' ');
  if (!shown.empty()) absl::StrAppend(&why, "; stderr ends: ", shown);
  return absl::InternalError(why);
}

}  // namespace ingot::agents
