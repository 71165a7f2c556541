#include "agents/mcp/mcp_servers.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "agents/exit_output.h"
#include "sandbox/launch_messages.h"

namespace ingot::agents {
namespace {

using base::json::array;
using base::json::object;
using base::json::value;

// The oldest protocol versions over stdin and stdout and over streamable HTTP. Every server supports them.
constexpr std::string_view kProtocol = "2024-11-05";
constexpr std::string_view kHttpProtocol = "2025-03-26";

// Names are used as JSON and TOML keys and in tool names.
bool IsWord(const std::string& name) {
  return !name.empty() && name.size() <= 64 && std::all_of(name.begin(), name.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-';
  });
}

// Writes a TOML string as a JSON string.
std::string Toml(const std::string& text) {
  std::string quoted;
  base::AppendJsonString(text, quoted);
  return quoted;
}

int64_t WholeSeconds(const StartedMcpServer& server) { return static_cast<int64_t>(std::ceil(server.start_timeout_s)); }

std::string CodexTables(const std::vector<StartedMcpServer>& servers) {
  std::string toml;
  for (const StartedMcpServer& server : servers) {
    absl::StrAppend(&toml, "[mcp_servers.", server.name, "]\n");
    if (server.url.empty()) {
      absl::StrAppend(&toml, "command = ", Toml(server.argv[0]), "\nargs = [");
      for (size_t i = 1; i < server.argv.size(); ++i) absl::StrAppend(&toml, i > 1 ? ", " : "", Toml(server.argv[i]));
      absl::StrAppend(&toml, "]\n");
    } else {
      absl::StrAppend(&toml, "url = ", Toml(server.url), "\n");
    }
    absl::StrAppend(&toml, "startup_timeout_sec = ", WholeSeconds(server), "\nrequired = true\n");
    const auto& table = server.url.empty() ? server.env : server.headers;
    if (table.empty()) continue;
    absl::StrAppend(&toml, "[mcp_servers.", server.name, server.url.empty() ? ".env]\n" : ".http_headers]\n");
    for (const auto& [name, text] : table) absl::StrAppend(&toml, Toml(name), " = ", Toml(text), "\n");
  }
  return toml;
}

std::string ErrorOf(const value& answer) {
  const value* error = base::Find(answer, "error");
  if (error == nullptr) return "";
  const value* message = base::Find(*error, "message");
  return message != nullptr && message->is_string() ? std::string(message->get_string()) : base::PrintJson(*error);
}

object Strings(const std::map<std::string, std::string>& texts) {
  object made;
  for (const auto& [name, text] : texts) made[name] = text;
  return made;
}

bool HasUser(std::string_view url) {
  const size_t scheme = url.find("://");
  if (scheme != std::string_view::npos) url.remove_prefix(scheme + 3);
  return url.substr(0, url.find_first_of("/?#")).find('@') != std::string_view::npos;
}

// Describes what is wrong with the URL, in human-readable form. Does not show a user name because a password may follow
// it.
std::string UrlFault(const StartedMcpServer& server) {
  if (server.url.empty()) return "";
  if (HasUser(server.url)) return "url contains a user name: put credentials in headers";
  const std::string shown = absl::StrCat("url ", server.url, " ");
  if (server.argv.empty()) {
    const bool is_http = server.url.starts_with("http://") || server.url.starts_with("https://");
    return is_http ? "" : shown + "is not an http:// or https:// address";
  }
  for (const std::string_view host : {"http://127.0.0.1:", "http://localhost:"}) {
    if (!server.url.starts_with(host)) continue;
    const std::string rest = server.url.substr(host.size());
    const std::string digits = rest.substr(0, rest.find('/'));
    int port = 0;
    if (!absl::SimpleAtoi(digits, &port) || port < 1 || port > 65535) return shown + "has no valid port";
    return port == sandbox::kInsidePort ? shown + "has the gateway's port" : "";
  }
  return shown + "must begin with http://127.0.0.1:PORT: its command listens inside the sandbox";
}

absl::StatusOr<std::map<std::string, sandbox::Template>> ParseTexts(const std::map<std::string, std::string>& texts,
                                                                    const std::string& key,
                                                                    const std::vector<std::string>& known) {
  std::map<std::string, sandbox::Template> parsed;
  for (const auto& [name, written] : texts) {
    auto text = sandbox::Template::Parse(written, known);
    if (!text.ok()) return base::Annotate(text.status(), absl::StrCat(key, ".", name));
    parsed.emplace(name, *std::move(text));
  }
  return parsed;
}

object Initialize(std::string_view protocol) {
  return {{"jsonrpc", "2.0"},
          {"id", 1},
          {"method", "initialize"},
          {"params", object{{"protocolVersion", protocol},
                            {"capabilities", object{}},
                            {"clientInfo", object{{"name", "ingot"}, {"version", "1"}}}}}};
}

}  // namespace

absl::StatusOr<std::vector<McpServer>> ParseServices(const std::vector<ServiceOptions>& options,
                                                     const std::vector<std::string>& known) {
  std::vector<McpServerOptions> servers;
  for (const ServiceOptions& each : options) {
    if (each.command.empty() || each.url.empty()) {
      return absl::InvalidArgumentError(absl::StrCat("services '", each.name, "': set a command and its url"));
    }
    servers.push_back({.name = each.name,
                       .command = each.command,
                       .url = each.url,
                       .env = each.env,
                       .start_timeout_s = each.start_timeout_s});
  }
  return ParseMcpServers(servers, known, "services");
}

absl::StatusOr<std::vector<McpServer>> ParseMcpServers(const std::vector<McpServerOptions>& options,
                                                       const std::vector<std::string>& known, std::string_view list) {
  std::vector<McpServer> servers;
  std::set<std::string> names;
  for (const McpServerOptions& each : options) {
    const std::string key = absl::StrCat(base::View(list), " '", each.name, "'");
    if (!IsWord(each.name)) {
      return absl::InvalidArgumentError(absl::StrCat(key, ": a name has at most 64 letters, digits, - and _"));
    }
    if (!names.insert(each.name).second) return absl::InvalidArgumentError(absl::StrCat(key, " is declared twice"));
    if (each.command.empty() && each.url.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(key, ": set a command, a url, or both"));
    }
    if (each.url.empty() && !each.headers.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(key, ": headers need a url"));
    }
    if (each.command.empty() && !each.env.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(key, ": env needs a command"));
    }
    if (!(each.start_timeout_s > 0 && each.start_timeout_s <= 1e6)) {
      return absl::InvalidArgumentError(absl::StrCat(key, ": start_timeout_s must be above 0 (and at most 1e6)"));
    }
    McpServer server{.list = std::string(list), .options = each, .command = {}, .env = {}, .url = {}, .headers = {}};
    for (const std::string& argument : each.command) {
      auto text = sandbox::Template::Parse(argument, known);
      if (!text.ok()) return base::Annotate(text.status(), absl::StrCat(key, ": command"));
      server.command.push_back(*std::move(text));
    }
    INGOT_ASSIGN_OR_RETURN(server.env, ParseTexts(each.env, absl::StrCat(key, ": env"), known));
    INGOT_ASSIGN_OR_RETURN(server.headers, ParseTexts(each.headers, absl::StrCat(key, ": headers"), known));
    auto url = sandbox::Template::Parse(each.url, known);
    if (!url.ok()) return base::Annotate(url.status(), absl::StrCat(key, ": url"));
    server.url = *std::move(url);
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
      if (!text.ok()) return base::Annotate(text.status(), absl::StrCat(server.list, " '", server.options.name, "'"));
      return text;
    };
    for (const sandbox::Template& argument : server.command) {
      INGOT_ASSIGN_OR_RETURN(std::string text, render(argument));
      made.argv.push_back(std::move(text));
    }
    for (const auto& [name, written] : server.env) {
      INGOT_ASSIGN_OR_RETURN(made.env[name], render(written));
    }
    for (const auto& [name, written] : server.headers) {
      INGOT_ASSIGN_OR_RETURN(made.headers[name], render(written));
    }
    INGOT_ASSIGN_OR_RETURN(made.url, render(server.url));
    if (const std::string fault = UrlFault(made); !fault.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(server.list, " '", made.name, "': ", fault));
    }
    rendered.push_back(std::move(made));
  }
  return rendered;
}

object McpConfigurations(const std::vector<StartedMcpServer>& servers) {
  object plain, gemini, opencode;
  for (const StartedMcpServer& server : servers) {
    const int64_t timeout_ms = WholeSeconds(server) * 1000;
    if (!server.url.empty()) {
      const object headers = Strings(server.headers);
      plain[server.name] = object{{"type", "http"}, {"url", server.url}, {"headers", headers}};
      gemini[server.name] = object{{"httpUrl", server.url}, {"headers", headers}};
      opencode[server.name] = object{{"type", "remote"}, {"url", server.url}, {"headers", headers},
                                     {"oauth", false},   {"enabled", true},   {"timeout", timeout_ms}};
      continue;
    }
    array command, args;
    const object env = Strings(server.env);
    for (const std::string& word : server.argv) command.emplace_back(word);
    for (size_t i = 1; i < server.argv.size(); ++i) args.emplace_back(server.argv[i]);
    opencode[server.name] = object{{"type", "local"},
                                   {"command", std::move(command)},
                                   {"environment", env},
                                   {"enabled", true},
                                   {"timeout", timeout_ms}};
    plain[server.name] = object{{"command", server.argv[0]}, {"args", std::move(args)}, {"env", env}};
    gemini[server.name] = plain[server.name];
  }
  return {{"servers", std::move(plain)},
          {"gemini", std::move(gemini)},
          {"opencode", std::move(opencode)},
          {"codex", CodexTables(servers)}};
}

std::string McpGreeting() {
  return absl::StrCat(base::PrintJson(Initialize(kProtocol)), "\n",
                      R"({"jsonrpc":"2.0","method":"notifications/initialized"})", "\n");
}

std::string McpInitialize() { return base::PrintJson(Initialize(kHttpProtocol)); }

absl::Status CheckMcpMessage(std::string_view message) {
  const auto answer = base::ParseJson(message);
  const value* const id = answer.ok() ? base::Find(*answer, "id") : nullptr;
  if (id == nullptr || !id->is_int64() || id->get_int64() != 1) return absl::NotFoundError("no answer");
  if (base::Find(*answer, "result") != nullptr) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("it rejected `initialize`: ", ErrorOf(*answer)));
}

absl::Status CheckMcpAnswer(const sandbox::Outcome& outcome, const sandbox::Limits& limits) {
  for (const absl::string_view line : absl::StrSplit(outcome.out, '\n')) {
    absl::Status answer = CheckMcpMessage(std::string_view(line.data(), line.size()));
    if (!absl::IsNotFound(answer)) return answer;
  }
  const std::string why = absl::StrCat("it did not respond and ", sandbox::Describe(outcome, limits));
  return absl::InternalError(absl::StrCat(why, DescribeExitOutput("stderr", outcome.err)));
}

}  // namespace ingot::agents
