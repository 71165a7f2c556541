#include "app/cluster/status/status_endpoint.h"

#include <algorithm>
#include <utility>

#include "app/cluster/status/socket_question.h"
#include "base/json.h"
#include "base/log.h"
#include "base/printable.h"

namespace ingot::app {
namespace {

constexpr char kPath[] = "/status", kJsonPath[] = "/status.json";

http::Reply Text(int status, std::string body) {
  return {.status = status, .content_type = "text/plain; charset=utf-8", .body = std::move(body)};
}

}  // namespace

std::string FormatRoles(const std::vector<RoleStatus>& roles) {
  std::string lines;
  for (const RoleStatus& role : roles) {
    std::string state = role.state.ok() ? *role.state : absl::StrCat("NOT REACHED: ", role.state.status().message());
    if (!role.computes.empty()) absl::StrAppend(&state, state.empty() ? "" : "; ", role.computes);
    if (!role.waits.empty()) {
      absl::StrAppend(&state, state.empty() ? "" : "; ", "waits for ", role.waits);
    }
    lines += fmt::format("{:<10} {:<22} {}\n", role.name, role.address, base::Printable(state));
  }
  return lines;
}

std::string JsonOfRoles(const std::vector<RoleStatus>& roles) {
  base::json::array all;
  for (const RoleStatus& role : roles) {
    base::json::object fields{{"name", role.name}, {"address", role.address}};
    if (role.pid > 0) fields["pid"] = role.pid;
    const char* const answer = role.state.ok() ? "state" : "error";
    fields[answer] = base::Printable(role.state.ok() ? *role.state : std::string(role.state.status().message()));
    if (!role.computes.empty()) fields["computes"] = base::Printable(role.computes);
    if (!role.waits.empty()) fields["waits"] = base::Printable(role.waits);
    all.push_back(std::move(fields));
  }
  return base::PrintJson(all) + "\n";
}

std::vector<RoleStatus> WithUnresponsive(std::vector<RoleStatus> roles, const std::vector<RoleStatus>& unresponsive) {
  for (const RoleStatus& one : unresponsive) {
    const auto is_it = [&](const RoleStatus& role) { return role.name == one.name; };
    const auto found = std::find_if(roles.begin(), roles.end(), is_it);
    if (found == roles.end()) {
      roles.push_back(one);
    } else if (!found->state.ok() && found->address == "-") {  // its lease has expired
      found->state =
          absl::UnavailableError(absl::StrCat(one.state.status().message(), "; ", found->state.status().message()));
    } else if (!found->state.ok()) {
      found->state = one.state;  // more informative than a deadline
    }
  }
  return roles;
}

std::vector<RoleStatus> WithWaits(std::vector<RoleStatus> roles, const std::map<std::string, ReportedWaits>& waits) {
  for (const auto& [name, reported] : waits) {
    const auto is_it = [&](const RoleStatus& role) { return role.name == name; };
    auto found = std::find_if(roles.begin(), roles.end(), is_it);
    if (found == roles.end()) {
      found = roles.insert(roles.end(), {.name = name, .address = "-", .state = ""});
    }
    if (!reported.empty()) found->waits = reported.All();
    found->computes = reported.computes;
  }
  return roles;
}

bool AllAnswer(const std::vector<RoleStatus>& roles) {
  return std::all_of(roles.begin(), roles.end(), [](const RoleStatus& role) { return role.state.ok(); });
}

absl::StatusOr<std::unique_ptr<StatusEndpoint>> StatusEndpoint::Start(const std::string& path,
                                                                      std::function<std::vector<RoleStatus>()> ask) {
  http::Options options;
  options.unix_socket = path;
  options.max_connections = 16;
  options.max_body_bytes = options.max_buffered_bytes = 4096;
  auto endpoint = std::unique_ptr<StatusEndpoint>(new StatusEndpoint(std::move(ask)));
  INGOT_ASSIGN_OR_RETURN(endpoint->server_, http::Server::Listen(options, *endpoint));
  endpoint->server_->Serve();
  return endpoint;
}

http::Opening StatusEndpoint::Head(http::RequestHead head) {
  const bool json = head.target == kJsonPath;
  if ((head.target != kPath && !json) || head.method != "GET") {
    return {.rejection = Text(404, "GET /status\n")};
  }
  const auto answer = [this, json](const std::string&) {
    const std::vector<RoleStatus> roles = ask_();
    return Text(AllAnswer(roles) ? 200 : 503, json ? JsonOfRoles(roles) : FormatRoles(roles));
  };
  return {.exchange = http::MakeExchange(
              http::Work{.post = [this](std::function<void()> job) { return thread_.TryPost(std::move(job)).ok(); },
                         .answer = answer,
                         .busy = [] { return Text(503, "too many requests for the state\n"); }})};
}

absl::StatusOr<LaunchedStatus> AskLauncher(const std::string& path, bool json) {
  INGOT_ASSIGN_OR_RETURN(http::Answer answer, AskSocket(path, json ? kJsonPath : kPath, "the launcher"));
  return LaunchedStatus{answer.status == 200, std::move(answer.body)};
}

}  // namespace ingot::app
