#include "sandbox/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <optional>

#include "base/log.h"
#include "sandbox/group_guard.h"
#include "sandbox/session.h"
#include "sandbox/spawn.h"

namespace ingot::sandbox {
namespace {

using std::chrono::nanoseconds;
using SteadyClock = std::chrono::steady_clock;

// The command's stdin is a file in memory, not a pipe: nobody has to feed it, and a command that does not read raises
// no SIGPIPE here.
absl::StatusOr<Fd> StdinFor(const std::string& text) {
  if (text.empty()) {
    Fd null(open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (!null.valid()) return ErrnoStatus(errno, "cannot open /dev/null");
    return null;
  }
  Fd memory(memfd_create("ingot-stdin", MFD_CLOEXEC));
  if (!memory.valid()) return ErrnoStatus(errno, "cannot make a file in memory for stdin");
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t wrote = write(memory.get(), text.data() + done, text.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return ErrnoStatus(errno, "cannot write the text for stdin");
    done += wrote;
  }
  lseek(memory.get(), 0, SEEK_SET);
  return memory;
}

struct Pipe {
  Fd read, write;
};

absl::StatusOr<Pipe> MakePipe() {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) return ErrnoStatus(errno, "cannot make a pipe");
  Pipe pipe{Fd(fds[0]), Fd(fds[1])};
  fcntl(pipe.read.get(), F_SETFL, O_NONBLOCK);
  return pipe;
}

// One running session: reads its output until its first process ends or a limit is met, then kills the session.
class Session {
 public:
  Session(pid_t pid, Fd pidfd, Fd out, Fd err, const Limits& limits, const Cancellation* cancel, int64_t own_peak_kib)
      : pid_(pid),
        pidfd_(std::move(pidfd)),
        out_fd_(std::move(out)),
        err_fd_(std::move(err)),
        limits_(limits),
        cancel_(cancel),
        own_peak_kib_(own_peak_kib),
        start_(SteadyClock::now()) {}

  Outcome RunToEnd() {
    const std::optional<Ending> cut = Watch();
    Outcome outcome = Finish();
    if (cut.has_value()) {
      outcome.ending = *cut;
      outcome.exit_code = -1;
      outcome.signal = 0;
    }
    return outcome;
  }

 private:
  // The limit that was met; nullopt = the first process ended by itself.
  std::optional<Ending> Watch() {
    auto deadline = start_ + limits_.wall_time;
    bool terminated = false;
    while (true) {
      const nanoseconds left = deadline - SteadyClock::now();
      if (left.count() <= 0) {
        if (terminated || limits_.term_grace.count() == 0) return Ending::kTimedOut;
        terminated = true;
        SignalSession(pid_, SIGTERM);
        deadline = SteadyClock::now() + limits_.term_grace;
        continue;
      }
      pollfd fds[4] = {{pidfd_.get(), POLLIN, 0},
                       {out_fd_.get(), POLLIN, 0},
                       {err_fd_.get(), POLLIN, 0},
                       {cancel_ == nullptr ? -1 : cancel_->fd(), POLLIN, 0}};
      const timespec wait{left.count() / 1'000'000'000, left.count() % 1'000'000'000};
      if (ppoll(fds, 4, &wait, nullptr) < 0) continue;  // EINTR
      if (fds[3].revents != 0) return Ending::kCancelled;
      if (fds[1].revents != 0 && !Read(out_fd_, out_)) return Ending::kOutputOverflow;
      if (fds[2].revents != 0 && !Read(err_fd_, err_)) return Ending::kOutputOverflow;
      if (fds[0].revents != 0) {
        // Its last output may have come after the reads above.
        if (!Read(out_fd_, out_) || !Read(err_fd_, err_)) return Ending::kOutputOverflow;
        return terminated ? std::optional(Ending::kTimedOut) : std::nullopt;
      }
    }
  }

  // Appends the output that is there now to `text`. Closes `fd` at end of file. False: the limit is exceeded.
  bool Read(Fd& fd, std::string& text) {
    char buffer[16384];
    while (fd.valid()) {
      const ssize_t got = read(fd.get(), buffer, sizeof(buffer));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 && errno == EAGAIN) return true;
      if (got <= 0) {
        fd.Reset();
        return true;
      }
      const int64_t room = limits_.output_bytes - static_cast<int64_t>(out_.size() + err_.size());
      text.append(buffer, std::min<int64_t>(got, room));
      if (got > room) return false;
    }
    return true;
  }

  // Kills the session, reaps its leader, and returns the leader's outcome.
  Outcome Finish() {
    // The leader runs or is a zombie, so that its id is still this session's.
    kill(-pid_, SIGKILL);
    siginfo_t info;
    while (waitid(P_PID, pid_, &info, WEXITED | WNOWAIT) < 0 && errno == EINTR) continue;
    if (!KillSession(pid_)) {
      INGOT_LOG(warn, "processes that command {} started are still there 2 s after SIGKILL", pid_);
    }
    ForgetGroup(pid_);
    int status = 0;
    rusage usage{};
    while (wait4(pid_, &status, 0, &usage) < 0 && errno == EINTR) continue;
    Outcome outcome;
    outcome.wall = SteadyClock::now() - start_;
    outcome.cpu = std::chrono::seconds(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                  std::chrono::microseconds(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
    if (usage.ru_maxrss > own_peak_kib_) outcome.max_rss_bytes = int64_t{usage.ru_maxrss} * 1024;
    outcome.out = std::move(out_);
    outcome.err = std::move(err_);
    if (WIFSIGNALED(status)) {
      outcome.ending = Ending::kSignalled;
      outcome.signal = WTERMSIG(status);
    } else {
      outcome.exit_code = WEXITSTATUS(status);
    }
    return outcome;
  }

  const pid_t pid_;
  const Fd pidfd_;
  Fd out_fd_, err_fd_;
  const Limits& limits_;
  const Cancellation* const cancel_;
  const int64_t own_peak_kib_;
  const SteadyClock::time_point start_;
  std::string out_, err_;
};

std::string Seconds(nanoseconds time) { return absl::StrCat(std::chrono::duration<double>(time).count(), " s"); }

}  // namespace

absl::Status Limits::Validate() const {
  if (wall_time.count() <= 0) return absl::InvalidArgumentError("the wall time limit of a command must be above 0");
  if (term_grace.count() < 0) return absl::InvalidArgumentError("the grace after SIGTERM must not be negative");
  if (output_bytes < 0) return absl::InvalidArgumentError("the output limit of a command must not be negative");
  if (memory_bytes < 0 || open_files < 0 || cpu_seconds < 0 || file_bytes < 0) {
    return absl::InvalidArgumentError("a resource limit of a command is negative; 0 means no limit of its own");
  }
  return absl::OkStatus();
}

std::string Describe(const Outcome& outcome, const Limits& limits) {
  switch (outcome.ending) {
    case Ending::kExited:
      return absl::StrCat("exited with ", outcome.exit_code);
    case Ending::kSignalled:
      return absl::StrCat("was killed by signal ", outcome.signal, " (", strsignal(outcome.signal), ")");
    case Ending::kTimedOut:
      return absl::StrCat("ran past its limit of ", Seconds(limits.wall_time));
    case Ending::kOutputOverflow:
      return absl::StrCat("wrote more than its limit of ", limits.output_bytes, " bytes");
    case Ending::kCancelled:
      return "was cancelled";
  }
  return "ended";
}

Cancellation::Cancellation() : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  // Without a descriptor nothing can be cancelled: said at the start, not at the stop.
  if (fd_ < 0) INGOT_LOG(error, "no descriptor left for a cancellation event: raise the limit of open files");
}

Cancellation::~Cancellation() {
  if (fd_ >= 0) close(fd_);
}

void Cancellation::Cancel() {
  cancelled_.store(true);
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(fd_, &one, sizeof(one));
}

absl::StatusOr<Outcome> RunCommand(const Command& command, const Limits& limits, const Cancellation* cancel) {
  INGOT_RETURN_IF_ERROR(limits.Validate());
  if (cancel != nullptr && cancel->cancelled()) return absl::CancelledError("cancelled before it was started");
  INGOT_ASSIGN_OR_RETURN(Fd in, StdinFor(command.stdin_text));
  INGOT_ASSIGN_OR_RETURN(Pipe out, MakePipe());
  INGOT_ASSIGN_OR_RETURN(Pipe err, MakePipe());
  rusage own{};
  getrusage(RUSAGE_SELF, &own);
  INGOT_ASSIGN_OR_RETURN(const pid_t pid, Spawn(command, limits, {in.get(), out.write.get(), err.write.get()},
                                                {.dies_with_thread = true, .guard_fd = GroupGuardFd()}));
  out.write.Reset();
  err.write.Reset();
  Fd pidfd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (!pidfd.valid()) {
    absl::Status status = ErrnoStatus(errno, "cannot watch the process (pidfd_open, Linux 5.3)");
    kill(-pid, SIGKILL);
    ForgetGroup(pid);
    while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) continue;
    return status;
  }
  return Session(pid, std::move(pidfd), std::move(out.read), std::move(err.read), limits, cancel, own.ru_maxrss)
      .RunToEnd();
}

std::map<std::string, std::string> InheritedEnvironment(const std::vector<std::string>& names) {
  std::map<std::string, std::string> found;
  for (const std::string& name : names) {
    if (const char* value = std::getenv(name.c_str())) found[name] = value;
  }
  return found;
}

}  // namespace ingot::sandbox
