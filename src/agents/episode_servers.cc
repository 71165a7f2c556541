#include "agents/episode_servers.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "agents/exit_output.h"
#include "agents/mcp/mcp_http.h"
#include "http/site_check.h"

namespace ingot::agents {
namespace {

using Steady = std::chrono::steady_clock;

constexpr int kPauseMs = 20;  // between two requests to a server that is not listening yet
constexpr std::chrono::milliseconds kOneTry{10'000};
constexpr off_t kReadOutput = 1024;

std::string EndOfOutput(const sandbox::Companion& companion) {
  std::string text(kReadOutput, '\0');
  const off_t size = lseek(companion.output.get(), 0, SEEK_END);
  const ssize_t got = pread(companion.output.get(), text.data(), text.size(), std::max<off_t>(0, size - kReadOutput));
  text.resize(static_cast<size_t>(std::max<ssize_t>(0, got)));
  return text;
}

// Waits briefly. Returns true if the companion has ended.
bool IsGoneAfterPause(const sandbox::Companion* companion) {
  pollfd fds{companion == nullptr ? -1 : companion->input.get(), 0, 0};
  return poll(&fds, 1, kPauseMs) == 1;
}

using Greeting = EpisodeServers::Greeting;

// Returns true if another attempt would not help.
bool IsFinal(const absl::Status& answered) {
  return answered.ok() || absl::IsInternal(answered) || absl::IsInvalidArgument(answered) ||
         absl::IsPermissionDenied(answered);
}

// Sends requests until the server answers, has ended, or times out.
absl::Status AwaitAnswer(const StartedMcpServer& server, const sandbox::Companion* companion, sandbox::Sandbox& sandbox,
                         const sandbox::Cancellation* cancel, Greeting greet) {
  http::ClientRequest request{.url = server.url, .headers = server.headers, .uses_proxies = true};
  if (companion != nullptr) request.make_socket = [&sandbox] { return sandbox.NewSocket(); };
  const auto limit =
      std::chrono::duration_cast<Steady::duration>(std::chrono::duration<double>(server.start_timeout_s));
  const Steady::time_point deadline = Steady::now() + limit;
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Steady::now());
    request.timeout = std::clamp<std::chrono::milliseconds>(left, std::chrono::milliseconds(1), kOneTry);
    absl::Status answered = greet(request);
    if (IsFinal(answered)) return answered;
    if (cancel != nullptr && cancel->cancelled()) return absl::CancelledError("the runner was stopped");
    if (IsGoneAfterPause(companion)) return absl::InternalError("its program has ended");
    if (Steady::now() >= deadline) {
      return absl::DeadlineExceededError(
          absl::StrCat("no response within ", server.start_timeout_s, " s: ", answered.message()));
    }
  }
}

// Returns `like` with the server's program and its additional variables.
sandbox::Command CommandOf(const StartedMcpServer& server, const sandbox::Command& like) {
  sandbox::Command command = like;
  command.argv = server.argv;
  for (const auto& [name, text] : server.env) command.env[name] = text;
  return command;
}

constexpr char kListensInside[] =
    " listens inside the sandbox, which needs its own network (sandbox.require: namespaces, sandbox.network: none); "
    "agents have the ";

}  // namespace

absl::Status CheckServersReach(const RecipeOptions& recipe, const sandbox::ProbeResult& probe_result) {
  if (!recipe.services.empty() && !probe_result.own_network) {
    return absl::FailedPreconditionError(absl::StrCat("recipe '", recipe.name, "': the service '",
                                                      recipe.services[0].name, "'", kListensInside,
                                                      probe_result.Describe()));
  }
  for (const McpServerOptions& server : recipe.mcp) {
    if (server.url.empty() || probe_result.own_network) continue;
    const std::string who = absl::StrCat("recipe '", recipe.name, "': the MCP server '", server.name, "'");
    const std::string have = absl::StrCat("; agents have the ", probe_result.Describe());
    if (!server.command.empty()) {
      return absl::FailedPreconditionError(absl::StrCat(who, kListensInside, probe_result.Describe()));
    }
    if (probe_result.landlock > 0) {
      return absl::FailedPreconditionError(absl::StrCat(
          who,
          " has an address that sandboxes cannot reach at this isolation level; use the level namespaces or process",
          have));
    }
  }
  return absl::OkStatus();
}

absl::Status EpisodeServers::Declare(const Recipe& recipe, const sandbox::Variables& variables,
                                     sandbox::Sandbox& sandbox, McpBridge* bridge) {
  INGOT_ASSIGN_OR_RETURN(servers_, RenderMcpServers(recipe.mcp, variables));
  INGOT_ASSIGN_OR_RETURN(services_, RenderMcpServers(recipe.services, variables));
  std::vector<StartedMcpServer> shown = servers_;
  for (StartedMcpServer& server : shown) {
    if (!server.argv.empty() || bridge == nullptr) continue;
    INGOT_ASSIGN_OR_RETURN(McpBridge::Way way, bridge->Open(sandbox, server.url, server.headers));
    server.url = way.url;
    server.headers.clear();
    ways_.push_back(std::move(way));
  }
  text_ = base::PrintJson(McpConfigurations(shown));
  return absl::OkStatus();
}

absl::Status EpisodeServers::Start(const Recipe& recipe, const sandbox::Command& like, sandbox::Sandbox& sandbox,
                                   const sandbox::Cancellation* cancel) {
  const auto failed = [](const absl::Status& why, const char* what, const StartedMcpServer& server) {
    // Shows only the host of a URL, which may contain a key.
    const std::string shown(server.argv.empty() ? http::HostOfUrl(server.url) : server.argv[0]);
    return base::Annotate(why, absl::StrCat("the ", what, " '", server.name, "' (", shown, ") did not start"));
  };
  // Servers over stdin come first because starting one runs a command, and the end of a command stops companions.
  // Servers that listen may need a service.
  for (const bool listens : {false, true}) {
    for (size_t i = 0; listens && i < services_.size(); ++i) {
      failed_kind_ = "service";
      const absl::Status started = StartListening(recipe, services_[i], true, like, sandbox, cancel, GreetService);
      if (!started.ok()) return failed(started, "service", services_[i]);
    }
    failed_kind_ = "mcp";
    for (size_t i = 0; i < servers_.size(); ++i) {
      const StartedMcpServer& server = servers_[i];
      if ((!server.argv.empty() && !server.url.empty()) != listens) continue;
      const bool check = recipe.options.mcp[i].check_start;
      const absl::Status started = listens
                                       ? StartListening(recipe, server, check, like, sandbox, cancel, GreetMcpServer)
                                       : CheckNonStdio(recipe, server, check, like, sandbox, cancel);
      if (!started.ok()) return failed(started, "MCP server", server);
    }
  }
  return absl::OkStatus();
}

absl::Status EpisodeServers::CheckNonStdio(const Recipe& recipe, const StartedMcpServer& server, bool check,
                                           const sandbox::Command& like, sandbox::Sandbox& sandbox,
                                           const sandbox::Cancellation* cancel) const {
  if (!check) return absl::OkStatus();
  if (server.argv.empty()) return AwaitAnswer(server, nullptr, sandbox, cancel, GreetMcpServer);
  sandbox::Command command = CommandOf(server, like);
  command.stdin_text = McpGreeting();
  const sandbox::Limits limits = recipe.LimitsFor(server.start_timeout_s);
  INGOT_ASSIGN_OR_RETURN(const sandbox::Outcome outcome, sandbox.Run(command, limits, cancel));
  return CheckMcpAnswer(outcome, limits);
}

absl::Status EpisodeServers::StartListening(const Recipe& recipe, const StartedMcpServer& server, bool check,
                                            const sandbox::Command& like, sandbox::Sandbox& sandbox,
                                            const sandbox::Cancellation* cancel, Greeting greet) {
  INGOT_ASSIGN_OR_RETURN(sandbox::Companion companion,
                         sandbox.StartCompanion(CommandOf(server, like), recipe.LimitsFor(server.start_timeout_s)));
  companions_.push_back(std::move(companion));
  if (!check) return absl::OkStatus();
  absl::Status answered = AwaitAnswer(server, &companions_.back(), sandbox, cancel, greet);
  if (answered.ok()) return answered;
  return absl::Status(answered.code(), absl::StrCat(answered.message(),
                                                    DescribeExitOutput("its output", EndOfOutput(companions_.back()))));
}

}  // namespace ingot::agents
