#include "app/status_endpoint.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "app/socket_question.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/printable.h"

namespace ingot::app {
namespace {

constexpr char kPath[] = "/status";

// An answer that takes a while, made on a thread of its own.
class StatusExchange final : public http::Exchange, public std::enable_shared_from_this<StatusExchange> {
 public:
  StatusExchange(base::Executor& thread, const std::function<std::vector<RoleStatus>()>& ask)
      : thread_(thread), ask_(ask) {}

  void Body(std::string, std::function<void()> wake) override {
    auto job = [self = shared_from_this(), wake] {
      const std::vector<RoleStatus> roles = self->ask_();
      self->Set({.status = AllAnswer(roles) ? 200 : 503,
                 .content_type = "text/plain; charset=utf-8",
                 .body = FormatRoles(roles)});
      wake();
    };
    if (thread_.TryPost(std::move(job)).ok()) return;
    Set({.status = 503, .content_type = "text/plain; charset=utf-8", .body = "too many ask for the state\n"});
    wake();
  }
  http::Output Send() override {
    base::MutexLock lock(mu_);
    http::Output output;
    output.done = reply_.has_value();
    output.reply = std::exchange(reply_, std::nullopt);
    return output;
  }
  void Closed(http::Side) override {}

 private:
  void Set(http::Reply reply) {
    base::MutexLock lock(mu_);
    reply_ = std::move(reply);
  }

  base::Executor& thread_;
  const std::function<std::vector<RoleStatus>()>& ask_;
  base::Mutex mu_;
  std::optional<http::Reply> reply_ ABSL_GUARDED_BY(mu_);
};

}  // namespace

std::string FormatRoles(const std::vector<RoleStatus>& roles) {
  std::string lines;
  for (const RoleStatus& role : roles) {
    const std::string state =
        role.state.ok() ? *role.state : absl::StrCat("NOT REACHED: ", role.state.status().message());
    lines += fmt::format("{:<10} {:<22} {}\n", role.name, role.address, base::Printable(state));
  }
  return lines;
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
  if (head.target != kPath || head.method != "GET") {
    return {.refusal = {.status = 404, .content_type = "text/plain; charset=utf-8", .body = "GET /status\n"}};
  }
  return {.exchange = std::make_shared<StatusExchange>(thread_, ask_)};
}

absl::StatusOr<LaunchedStatus> AskLauncher(const std::string& path) {
  INGOT_ASSIGN_OR_RETURN(SocketAnswer answer, AskSocket(path, kPath, "the launcher"));
  return LaunchedStatus{answer.status == 200, std::move(answer.body)};
}

}  // namespace ingot::app
