#include "sandbox/running_command.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/log.h"

namespace ingot::sandbox {
namespace {

using std::chrono::nanoseconds;

// Time to wait for killed processes to exit. A process in an uninterruptible system call may take longer.
constexpr int kKillTimeoutMs = 5'000;

// The command's stdin is an in-memory file instead of a pipe, so no thread has to feed it, and a command that does not
// read it causes no SIGPIPE here.
absl::StatusOr<Fd> StdinFor(const std::string& text) {
  if (text.empty()) {
    Fd null(open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (!null.valid()) return ErrnoStatus(errno, "cannot open /dev/null");
    return null;
  }
  Fd memory(memfd_create("ingot-stdin", MFD_CLOEXEC));
  if (!memory.valid()) return ErrnoStatus(errno, "cannot create a file in memory for stdin");
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t wrote = write(memory.get(), text.data() + done, text.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return ErrnoStatus(errno, "cannot write the text for stdin");
    done += static_cast<size_t>(wrote);
  }
  lseek(memory.get(), 0, SEEK_SET);
  return memory;
}

struct Pipe {
  Fd read, write;
};

absl::StatusOr<Pipe> MakePipe() {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) return ErrnoStatus(errno, "cannot create a pipe");
  Pipe pipe{Fd(fds[0]), Fd(fds[1])};
  fcntl(pipe.read.get(), F_SETFL, O_NONBLOCK);
  return pipe;
}

}  // namespace

std::optional<Ending> SandboxWatches::Fault(SteadyClock::time_point now) const {
  if (memory != nullptr && memory->IsExceeded(now)) return Ending::kMemoryFull;
  return disk != nullptr ? disk->Fault(now) : std::nullopt;
}

SandboxWatches::SteadyClock::time_point SandboxWatches::next() const {
  return std::min(disk != nullptr ? disk->next() : SteadyClock::time_point::max(),
                  memory != nullptr ? memory->next() : SteadyClock::time_point::max());
}

absl::StatusOr<Outcome> RunningCommand::RunToEnd(const Limits& limits, const Cancellation* cancel,
                                                 LaunchFailure& failure, const SandboxWatches& watches) {
  const std::optional<Ending> cut = Watch(limits, cancel, watches);
  if (cut.has_value()) Kill();
  if (!report_.has_value() && !cut.has_value()) {
    return absl::UnavailableError("the first process of the agent's sandbox was killed");
  }
  if (!report_.has_value()) report_.emplace();
  failure = report_->failure;
  Outcome outcome;
  outcome.wall = SteadyClock::now() - start_;
  outcome.cpu = nanoseconds(report_->cpu_ns);
  outcome.max_rss_bytes = report_->max_rss_kib * 1024;
  outcome.out = std::move(out_text_);
  outcome.err = std::move(err_text_);
  if (cut.has_value()) {
    outcome.ending = *cut;
  } else if (WIFSIGNALED(report_->wait_status)) {
    outcome.ending = Ending::kSignalled;
    outcome.signal = WTERMSIG(report_->wait_status);
  } else {
    outcome.exit_code = WEXITSTATUS(report_->wait_status);
  }
  return outcome;
}

std::optional<Ending> RunningCommand::Watch(const Limits& limits, const Cancellation* cancel,
                                            const SandboxWatches& watches) {
  auto deadline = start_ + limits.wall_time;
  bool terminated = false;
  while (true) {
    const SteadyClock::time_point now = SteadyClock::now();
    if (const auto fault = watches.Fault(now)) return fault;
    nanoseconds left = deadline - now;
    if (left.count() <= 0) {
      if (terminated || limits.term_grace.count() == 0) return Ending::kTimedOut;
      terminated = true;
      send(control_.get(), &kTerminate, 1, MSG_NOSIGNAL);
      deadline = SteadyClock::now() + limits.term_grace;
      continue;
    }
    left = std::clamp<nanoseconds>(watches.next() - now, nanoseconds(0), left);
    pollfd fds[4] = {{control_.get(), POLLIN, 0},
                     {out_.get(), POLLIN, 0},
                     {err_.get(), POLLIN, 0},
                     {cancel == nullptr ? -1 : cancel->fd(), POLLIN, 0}};
    const timespec wait{left.count() / 1'000'000'000, left.count() % 1'000'000'000};
    if (ppoll(fds, 4, &wait, nullptr) < 0) continue;  // EINTR
    if (fds[0].revents == 0 && fds[3].revents != 0) return Ending::kCancelled;
    if (fds[1].revents != 0 && !Read(out_, out_text_, limits)) return Ending::kOutputOverflow;
    if (fds[2].revents != 0 && !Read(err_, err_text_, limits)) return Ending::kOutputOverflow;
    if (fds[0].revents != 0) {
      TakeReport();
      // Its last output may have arrived after the reads above.
      if (!Read(out_, out_text_, limits) || !Read(err_, err_text_, limits)) return Ending::kOutputOverflow;
      if (watches.disk != nullptr && report_.has_value()) {
        if (const auto fault = watches.disk->FaultAtEnd()) return fault;
      }
      return terminated && report_.has_value() ? std::optional(Ending::kTimedOut) : std::nullopt;
    }
  }
}

void RunningCommand::Kill() {
  if (report_.has_value()) return;
  send(control_.get(), &kKill, 1, MSG_NOSIGNAL);
  pollfd answer{control_.get(), POLLIN, 0};
  int ready;
  do ready = poll(&answer, 1, kKillTimeoutMs);
  while (ready < 0 && errno == EINTR);
  if (ready == 1) TakeReport();  // there is none if the sandbox's first process is dead
  if (ready == 0) {
    INGOT_LOG(warn, "a command's processes still exist {} s after SIGKILL", kKillTimeoutMs / 1000);
  }
}

void RunningCommand::TakeReport() {
  LaunchReport report;
  if (recv(control_.get(), &report, sizeof(report), 0) == sizeof(report)) report_ = report;
}

bool RunningCommand::Read(Fd& fd, std::string& text, const Limits& limits) {
  char buffer[16384];
  while (fd.valid()) {
    const ssize_t got = read(fd.get(), buffer, sizeof(buffer));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return true;
    if (got <= 0) {
      fd.Reset();
      return true;
    }
    const int64_t left = limits.output_bytes - static_cast<int64_t>(out_text_.size() + err_text_.size());
    text.append(buffer, static_cast<size_t>(std::min<int64_t>(got, left)));
    if (got > left) return false;
  }
  return true;
}

absl::StatusOr<Outcome> RunInOpenSandbox(const Fd& sandbox, const StartOptions& start, const Command& command,
                                         const Limits& limits, const Cancellation* cancel,
                                         const SandboxWatches& watches, LaunchFailure& failure) {
  Fd in;
  if (command.program < 0) {
    INGOT_ASSIGN_OR_RETURN(in, StdinFor(command.stdin_text));
  }
  INGOT_ASSIGN_OR_RETURN(Pipe out, MakePipe());
  INGOT_ASSIGN_OR_RETURN(Pipe err, MakePipe());
  INGOT_ASSIGN_OR_RETURN(Fd control,
                         StartIn(sandbox, start,
                                 {command.program < 0 ? in.get() : command.program,
                                  command.channel < 0 ? out.write.get() : command.channel, err.write.get()}));
  out.write.Reset();
  err.write.Reset();
  return RunningCommand(std::move(control), std::move(out.read), std::move(err.read))
      .RunToEnd(limits, cancel, failure, watches);
}

}  // namespace ingot::sandbox
