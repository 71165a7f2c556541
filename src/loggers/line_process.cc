#include "loggers/line_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>

#include "sandbox/spawn.h"

namespace ingot::loggers {
namespace {

constexpr size_t kLongestReply = 1 << 16;

std::string DescribeEnd(const absl::StatusOr<int>& status) {
  if (!status.ok()) return std::string(status.status().message());
  if (WIFSIGNALED(*status)) return absl::StrCat("was killed by signal ", WTERMSIG(*status));
  return absl::StrCat("exited with ", WEXITSTATUS(*status));
}

}  // namespace

LineProcess::~LineProcess() { Stop(std::chrono::milliseconds(0)); }

absl::Status LineProcess::Start() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return sandbox::ErrnoStatus(errno, "cannot create a socket");
  base::Fd ours(ends[0]), theirs(ends[1]);
  fcntl(ours.get(), F_SETFL, O_NONBLOCK);
  const std::string output = options_.output.empty() ? "/dev/null" : options_.output;
  const base::Fd log(open(output.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  if (!log.valid()) return sandbox::ErrnoStatus(errno, "cannot open " + output);
  sandbox::Command command;
  command.argv = options_.argv;
  command.env = options_.env;
  INGOT_ASSIGN_OR_RETURN(pid_, sandbox::Spawn(command, {theirs.get(), log.get(), log.get()}, {}));
  socket_ = std::move(ours);
  unsent_.clear();
  received_.clear();
  return absl::OkStatus();
}

absl::StatusOr<base::json::object> LineProcess::Ask(base::json::object request, std::chrono::milliseconds timeout) {
  if (!running()) return absl::AbortedError(options_.name + " is not running");
  const Time end = std::chrono::steady_clock::now() + timeout;
  INGOT_RETURN_IF_ERROR(Flush(end));  // the rest of an earlier request
  request["n"] = ++asked_;
  unsent_ = base::PrintJson(request) + "\n";
  INGOT_RETURN_IF_ERROR(Flush(end));
  while (true) {
    INGOT_ASSIGN_OR_RETURN(const std::string line, ReadLine(end));
    const absl::StatusOr<base::json::value> reply = base::ParseJson(line);
    const base::json::value* n = reply.ok() ? base::Find(*reply, "n") : nullptr;
    if (n == nullptr || !n->is_int64()) {
      Stop(std::chrono::milliseconds(0));
      return absl::AbortedError(options_.name + " wrote a line that is not a reply, and was stopped");
    }
    if (n->get_int64() != asked_) continue;  // late
    const base::json::value* error = base::Find(*reply, "error");
    if (error == nullptr) return reply->as_object();
    return absl::InternalError(error->is_string() ? std::string(error->get_string()) : base::PrintJson(*error));
  }
}

void LineProcess::Stop(std::chrono::milliseconds timeout) {
  if (!running()) return;
  socket_.Reset();
  if (timeout.count() == 0) kill(pid_, SIGKILL);
  static_cast<void>(sandbox::AwaitChild(std::exchange(pid_, 0), options_.name, timeout));
}

absl::Status LineProcess::Await(short events, Time end) const {
  pollfd ready{socket_.get(), events, 0};
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now()).count();
    const int found = poll(&ready, 1, static_cast<int>(std::max<int64_t>(left, 0)));
    if (found > 0) return absl::OkStatus();
    if (found == 0 || errno != EINTR) return absl::DeadlineExceededError(options_.name + " has not responded yet");
  }
}

absl::Status LineProcess::Flush(Time end) {
  while (!unsent_.empty()) {
    const ssize_t sent = send(socket_.get(), unsent_.data(), unsent_.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      unsent_.erase(0, static_cast<size_t>(sent));
    } else if (sent < 0 && errno == EAGAIN) {
      INGOT_RETURN_IF_ERROR(Await(POLLOUT, end));
    } else if (errno != EINTR) {
      return Ended();
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> LineProcess::ReadLine(Time end) {
  for (size_t feed; (feed = received_.find('\n')) == std::string::npos;) {
    char piece[4096];
    const ssize_t got = recv(socket_.get(), piece, sizeof(piece), 0);
    if (got > 0) received_.append(piece, static_cast<size_t>(got));
    if (got == 0 || received_.size() > kLongestReply || (got < 0 && errno != EAGAIN && errno != EINTR)) return Ended();
    if (got < 0 && errno == EAGAIN) INGOT_RETURN_IF_ERROR(Await(POLLIN, end));
  }
  std::string line = received_.substr(0, received_.find('\n'));
  received_.erase(0, line.size() + 1);
  return line;
}

absl::Status LineProcess::Ended() {
  socket_.Reset();
  constexpr std::chrono::milliseconds kClosing{2000};
  const absl::StatusOr<int> status = sandbox::AwaitChild(std::exchange(pid_, 0), options_.name, kClosing);
  return absl::AbortedError(absl::StrCat(options_.name, " ", DescribeEnd(status),
                                         options_.output.empty() ? "" : "; its output is in " + options_.output));
}

}  // namespace ingot::loggers
