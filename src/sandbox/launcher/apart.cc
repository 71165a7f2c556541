#include "sandbox/launcher/apart.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox/launcher/isolation_steps.h"
#include "sandbox/launcher/left_out.h"
#include "sandbox/launcher/root.h"

namespace ingot::sandbox::launcher {
namespace {

int64_t Nanoseconds(const timeval& time) { return (int64_t{time.tv_sec} * 1'000'000 + time.tv_usec) * 1000; }

// Runs the namespace's first process: starts the command, adopts orphans, and exits with the command.
[[noreturn]] void RunFirst(const Ground& ground, const SandboxPlan& sandbox, const Start& start,
                           const int (&fds)[kStartDescriptors], int answers) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  LaunchFailure failure;
  pid_t command = -1;
  if (const int error = Raises(Measure::kProcApartFromCompanions) ? MountProc() : 0) {
    failure = {LaunchStep::kProc, error, 0};
  } else {
    command = StartCommand(ground, sandbox, start, fds, failure);
    if (command < 0) failure = {LaunchStep::kSession, errno, 0};
  }
  [[maybe_unused]] ssize_t wrote = write(answers, &failure, sizeof(failure));
  if (failure.step != LaunchStep::kNone) _exit(1);
  for (int i = 1; i < 4; ++i) close(fds[i]);  // the command's output must end when its own processes end
  int status = 0;
  rusage usage{};
  pid_t ended;
  do ended = wait4(-1, &status, 0, &usage);
  while (ended != command && (ended > 0 || errno == EINTR));
  const CommandEnd end{status, Nanoseconds(usage.ru_utime) + Nanoseconds(usage.ru_stime), usage.ru_maxrss};
  wrote = write(answers, &end, sizeof(end));
  _exit(0);
}

}  // namespace

pid_t StartApart(const Ground& ground, const SandboxPlan& sandbox, const Start& start,
                 const int (&fds)[kStartDescriptors], LaunchFailure& failure, int& ends) {
  int answers[2];
  if (pipe2(answers, O_CLOEXEC) != 0) return -1;
  const auto first =
      static_cast<pid_t>(syscall(SYS_clone, CLONE_NEWPID | CLONE_NEWNS | SIGCHLD, nullptr, nullptr, nullptr, nullptr));
  if (first == 0) {
    close(answers[0]);
    RunFirst(ground, sandbox, start, fds, answers[1]);
  }
  const int error = errno;
  close(answers[1]);
  if (first > 0 && read(answers[0], &failure, sizeof(failure)) == sizeof(failure)) {
    ends = answers[0];
    return first;
  }
  close(answers[0]);
  if (first > 0) failure = {LaunchStep::kSession, ECHILD, 0};  // it was killed
  errno = error;
  return first;
}

int SeparateShared(uint32_t shm_bytes) {
  if (unshare(CLONE_NEWNS | FlagOf(Measure::kCompanionSharesNoMemory, CLONE_NEWIPC)) != 0) return errno;
  if (!Raises(Measure::kCompanionSharesNoShm)) return 0;
  return MountShm("/dev/shm", shm_bytes);
}

}  // namespace ingot::sandbox::launcher
