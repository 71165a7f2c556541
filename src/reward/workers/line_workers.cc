#include "reward/workers/line_workers.h"

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "reward/verifiers/answer_verifier.h"

namespace ingot::reward {
namespace {

constexpr std::chrono::hours kLongestLife{24 * 365};
constexpr std::chrono::milliseconds kCancelCheck{200};

}  // namespace

class LineWorkers::Process {
 public:
  static absl::StatusOr<std::unique_ptr<Process>> Start(sandbox::Substrate& substrate, const Source& source,
                                                        size_t longest_reply) {
    INGOT_ASSIGN_OR_RETURN(Program program, source.make());
    std::array<int, 2> ends{};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
      return sandbox::ErrnoStatus(errno, "socketpair");
    }
    auto process = std::unique_ptr<Process>(new Process(substrate, source.key, sandbox::Fd(ends[0]), longest_reply));
    process->program_ = program.command.argv[0];
    sandbox::Fd far(ends[1]);
    INGOT_ASSIGN_OR_RETURN(process->sandbox_, substrate.Prepare());
    for (const auto& [path, content] : program.files) {
      INGOT_RETURN_IF_ERROR(process->sandbox_->WriteFile(path, content));
    }
    sandbox::Command command = std::move(program.command);
    command.env["HOME"] = process->sandbox_->home();
    command.env["TMPDIR"] = process->sandbox_->tmp();
    command.working_dir = process->sandbox_->work();
    command.channel = far.get();
    process->thread_ = std::thread([own = process.get(), command = std::move(command), far = std::move(far)]() mutable {
      own->Run(command);
      far.Reset();  // the reader sees the end
    });
    return process;
  }

  ~Process() {
    near_.Reset();
    end_.Cancel();
    if (thread_.joinable()) thread_.join();
  }

  bool Serves(const sandbox::Substrate& substrate, const std::string& key) const {
    return &substrate_ == &substrate && key_ == key;
  }
  int64_t uses() const { return uses_; }

  // Returns UNAVAILABLE if the program has ended (see HowItEnded), or DEADLINE_EXCEEDED, or CANCELLED.
  absl::StatusOr<std::string> Ask(const std::string& line, double load_s, double seconds,
                                  const sandbox::Cancellation* cancel) {
    if (!ready_) {
      INGOT_RETURN_IF_ERROR(ReadLine(DeadlineIn(load_s), cancel).status());
      ready_ = true;
    }
    const auto deadline = DeadlineIn(seconds);
    INGOT_RETURN_IF_ERROR(Send(line, deadline, cancel));
    ++uses_;
    return ReadLine(deadline, cancel);
  }

  // Closes the socket, waits for the program to end, and returns how it ended.
  std::string HowItEnded() {
    near_.Reset();
    thread_.join();
    if (!outcome_.ok()) return std::string(outcome_.status().message());
    return absl::StrCat(sandbox::Describe(*outcome_, limits_), "; its stderr: ", Quoted(Trimmed(outcome_->err)));
  }
  absl::Status failure() const { return outcome_.status(); }
  const std::string& program() const { return program_; }

 private:
  using Deadline = std::chrono::steady_clock::time_point;

  Process(sandbox::Substrate& substrate, std::string key, sandbox::Fd near, size_t longest_reply)
      : substrate_(substrate), key_(std::move(key)), longest_reply_(longest_reply), near_(std::move(near)) {
    limits_.wall_time = kLongestLife;
    limits_.term_grace = std::chrono::nanoseconds(0);
  }

  static Deadline DeadlineIn(double seconds) { return std::chrono::steady_clock::now() + base::FromSeconds(seconds); }

  void Run(const sandbox::Command& command) { outcome_ = sandbox_->Run(command, limits_, &end_); }

  absl::Status Send(const std::string& line, Deadline deadline, const sandbox::Cancellation* cancel) {
    for (size_t sent = 0; sent < line.size();) {
      const ssize_t n = send(near_.get(), line.data() + sent, line.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n >= 0) {
        sent += static_cast<size_t>(n);
      } else if (errno == EAGAIN || errno == EINTR) {
        INGOT_RETURN_IF_ERROR(Await(POLLOUT, deadline, cancel));
      } else {
        return absl::UnavailableError("it has exited");
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> ReadLine(Deadline deadline, const sandbox::Cancellation* cancel) {
    while (true) {
      if (const size_t end = unread_.find('\n'); end != std::string::npos) {
        std::string line = unread_.substr(0, end);
        unread_.erase(0, end + 1);
        return line;
      }
      if (unread_.size() > longest_reply_) return absl::InternalError("its response is too long");
      std::array<char, 4096> bytes;
      const ssize_t n = recv(near_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
      if (n > 0) {
        unread_.append(bytes.data(), static_cast<size_t>(n));
      } else if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        INGOT_RETURN_IF_ERROR(Await(POLLIN, deadline, cancel));
      } else {
        return absl::UnavailableError("it has exited");
      }
    }
  }

  // Waits for the socket for at most kCancelCheck. Returns DEADLINE_EXCEEDED or CANCELLED if that applies.
  absl::Status Await(short events, Deadline deadline, const sandbox::Cancellation* cancel) const {
    if (cancel != nullptr && cancel->cancelled()) return absl::CancelledError("the request was cancelled");
    if (std::chrono::steady_clock::now() >= deadline) return absl::DeadlineExceededError("it did not respond in time");
    pollfd ready{.fd = near_.get(), .events = events, .revents = 0};
    poll(&ready, 1, static_cast<int>(kCancelCheck.count()));
    return absl::OkStatus();
  }

  const sandbox::Substrate& substrate_;
  const std::string key_;
  const size_t longest_reply_;
  std::string program_;
  sandbox::Limits limits_;
  sandbox::Cancellation end_;
  std::unique_ptr<sandbox::Sandbox> sandbox_;
  sandbox::Fd near_;
  std::string unread_;
  bool ready_ = false;
  int64_t uses_ = 0;
  absl::StatusOr<sandbox::Outcome> outcome_ = absl::UnknownError("it runs");  // written by thread_
  std::thread thread_;
};

LineWorkers::LineWorkers(Options options) : options_(std::move(options)) {}

LineWorkers::~LineWorkers() { EndIdle(); }

void LineWorkers::EndIdle() {
  std::vector<std::unique_ptr<Process>> ended;  // destroyed outside the lock: waits for their programs
  base::MutexLock lock(mu_);
  ended.swap(idle_);
}

int64_t LineWorkers::started() const {
  base::MutexLock lock(mu_);
  return started_;
}

absl::StatusOr<std::unique_ptr<LineWorkers::Process>> LineWorkers::Acquire(sandbox::Substrate& substrate,
                                                                           const Source& source,
                                                                           const sandbox::Cancellation* cancel) {
  std::unique_ptr<Process> other;  // for another substrate or program; destroyed outside the lock
  {
    base::MutexLock lock(mu_);
    while (busy_ >= options_.processes) {
      if (cancel != nullptr && cancel->cancelled()) return absl::CancelledError("the request was cancelled");
      changed_.WaitFor(mu_, kCancelCheck);
    }
    ++busy_;
    if (!idle_.empty()) {
      other = std::move(idle_.back());
      idle_.pop_back();
      if (other->Serves(substrate, source.key)) return other;
    }
    ++started_;
  }
  other.reset();
  auto process = Process::Start(substrate, source, options_.longest_reply);
  if (!process.ok()) Return(nullptr);
  return process;
}

void LineWorkers::Return(std::unique_ptr<Process> process) {
  if (process != nullptr && options_.most_uses > 0 && process->uses() >= options_.most_uses) process.reset();
  base::MutexLock lock(mu_);
  --busy_;
  if (process != nullptr) idle_.push_back(std::move(process));
  changed_.SignalAll();
}

absl::Status LineWorkers::Failure(std::unique_ptr<Process> process, const absl::Status& why) const {
  if (absl::IsCancelled(why)) return why;
  std::string how = absl::StrCat("did not run: ", why.message());
  absl::StatusCode code = absl::IsDeadlineExceeded(why) ? why.code() : absl::StatusCode::kInternal;
  if (absl::IsUnavailable(why)) {
    how = absl::StrCat("did not run: ", process->HowItEnded());
    if (!process->failure().ok()) code = process->failure().code();
  }
  return absl::Status(code, absl::StrCat(options_.name, " (", process->program(), ") ", how, options_.advice));
}

absl::StatusOr<std::string> LineWorkers::Ask(sandbox::Substrate& substrate, const Source& source,
                                             const std::string& line, double seconds,
                                             const sandbox::Cancellation* cancel) {
  while (true) {
    INGOT_ASSIGN_OR_RETURN(std::unique_ptr<Process> process, Acquire(substrate, source, cancel));
    const bool was_new = process->uses() == 0;
    absl::StatusOr<std::string> reply = process->Ask(line, options_.load_s, seconds, cancel);
    if (reply.ok()) {
      Return(std::move(process));
      return reply;
    }
    // An idle process may have died since its last answer. If so, try another one.
    const bool again = absl::IsUnavailable(reply.status()) && !was_new;
    const absl::Status failure = again ? absl::OkStatus() : Failure(std::move(process), reply.status());
    process.reset();
    Return(nullptr);
    if (!again) return failure;
  }
}

}  // namespace ingot::reward
