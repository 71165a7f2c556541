#include "sandbox/launcher/room.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox/launcher/descendants.h"
#include "sandbox/launcher/parcel.h"
#include "sandbox/launcher/wall.h"

namespace ingot::sandbox::launcher {
namespace {

struct Start {
  const StartHeader* header = nullptr;
  const char* work_root = nullptr;
  const char* room = nullptr;
  const char* working_dir = nullptr;
  const char* path = nullptr;
  char** arguments = nullptr;
  char** variables = nullptr;
};

// Between vfork and exec the child writes here, in its parent's memory.
volatile LaunchFailure failed;

[[noreturn]] void Fail(LaunchStep step, int index = 0) {
  failed.error = errno;
  failed.index = index;
  failed.step = step;
  _exit(127);
}

bool ReadStart(int fd, Start& start) {
  Parcel parcel(fd);
  start.header = parcel.TakeHeader<StartHeader>();
  if (start.header == nullptr || start.header->limits > kMostLaunchLimits) return false;
  start.work_root = parcel.TakeString();
  start.room = parcel.TakeString();
  start.working_dir = parcel.TakeString();
  start.path = parcel.TakeString();
  if (start.path == nullptr) return false;
  start.arguments = parcel.TakeStrings(start.header->arguments);
  if (start.arguments == nullptr || start.header->arguments == 0) return false;
  start.variables = parcel.TakeStrings(start.header->variables);
  return start.variables != nullptr;
}

// The part of the wall that belongs to one room. Returns the failure.
LaunchFailure RaiseWall(const Ground& ground, const Start& start) {
  if ((ground.walls & kUserNamespace) != 0) {
    if (const int error = MapIds(ground.uid, ground.gid)) return {LaunchStep::kIdMap, error, 0};
  }
  if ((ground.walls & kPrivateProc) != 0) {
    if (const int error = MountProc()) return {LaunchStep::kProc, error, 0};
  }
  if ((ground.walls & kMountNamespace) != 0 && start.room[0] != 0) {
    const int error = (ground.walls & kOwnUid) != 0 ? NameUid(start.room) : ShowOneRoom(start.work_root, start.room);
    if (error != 0) return {LaunchStep::kFolder, error, 0};
  }
  return {};
}

void ResetSignals() {
  struct sigaction action;
  memset(&action, 0, sizeof(action));
  action.sa_handler = SIG_DFL;
  for (int signal = 1; signal < NSIG; ++signal) sigaction(signal, &action, nullptr);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

// Raw system calls: the C library's functions would take locks, and this memory is the parent's.
void TakeUid(uid_t uid) {
  if (syscall(SYS_setgroups, 0, nullptr) != 0) Fail(LaunchStep::kUid);
  if (syscall(SYS_setresgid, uid, uid, uid) != 0) Fail(LaunchStep::kUid);
  if (syscall(SYS_setresuid, uid, uid, uid) != 0) Fail(LaunchStep::kUid);
}

void TakeRights(const Ground& ground, const Start& start) {
  const bool keeps = (ground.walls & kKeepsCapabilities) != 0;
  if (!keeps && BoundCapabilities() != 0) Fail(LaunchStep::kUid);
  if ((ground.walls & kOwnUid) != 0) TakeUid(start.header->uid);
  if (!keeps && DropCapabilities() != 0) Fail(LaunchStep::kUid);
}

void Check(const Start& start) {
  for (uint32_t i = 0; i < start.header->arguments; ++i) {
    const char* const wish = start.arguments[i];
    if (access(wish + 1, wish[0] == 'x' ? X_OK : R_OK) != 0) Fail(LaunchStep::kReach, static_cast<int>(i));
  }
  _exit(0);
}

// As execvpe, without its fall-back to a shell.
void Execute(const Start& start) {
  const char* const name = start.arguments[0];
  if (strchr(name, '/') != nullptr) {
    execve(name, start.arguments, start.variables);
    Fail(LaunchStep::kExec);
  }
  int error = ENOENT;
  for (const char* folder = start.path; folder != nullptr;) {
    const char* const end = strchr(folder, ':');
    const int length = static_cast<int>(end == nullptr ? strlen(folder) : static_cast<size_t>(end - folder));
    char candidate[4096];
    if (snprintf(candidate, sizeof(candidate), "%.*s/%s", length == 0 ? 1 : length, length == 0 ? "." : folder, name) <
        static_cast<int>(sizeof(candidate))) {
      execve(candidate, start.arguments, start.variables);
      if (errno == EACCES) error = EACCES;
      if (errno != EACCES && errno != ENOENT && errno != ENOTDIR) Fail(LaunchStep::kExec);
    }
    folder = end == nullptr ? nullptr : end + 1;
  }
  errno = error;
  Fail(LaunchStep::kExec);
}

[[noreturn]] void RunCommandProcess(const Ground& ground, const Start& start, const int (&fds)[kStartDescriptors]) {
  setsid();
  for (int i = 0; i < 3; ++i) {
    if (dup2(fds[i + 1], i) < 0) Fail(LaunchStep::kSession);
  }
  TakeRights(ground, start);
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // after the uid, which clears it
  if (start.header->checks != 0) Check(start);
  if (start.working_dir[0] != 0 && chdir(start.working_dir) != 0) Fail(LaunchStep::kWorkingFolder);
  for (uint32_t i = 0; i < start.header->limits; ++i) {
    const LaunchLimit& wanted = start.header->limit[i];
    const rlimit limit{wanted.value, wanted.value};
    if (setrlimit(static_cast<__rlimit_resource_t>(wanted.resource), &limit) != 0) {
      Fail(LaunchStep::kLimit, static_cast<int>(i));
    }
  }
  ResetSignals();
  Execute(start);
  _exit(127);
}

// A frame of its own, so that no variable of the caller lives in a register across vfork.
__attribute__((noinline)) pid_t StartCommand(const Ground& ground, const Start& start,
                                             const int (&fds)[kStartDescriptors]) {
  const pid_t pid = vfork();
  if (pid == 0) RunCommandProcess(ground, start, fds);
  return pid;
}

// Signals every process of the room but this one. `uid`: of the room, if it has one.
void SignalAll(const Ground& ground, uid_t uid, int signal) {
  // The first process of a PID namespace reaches that namespace alone.
  if ((ground.walls & kPidNamespace) != 0 && getpid() == 1) {
    kill(-1, signal);
  } else if ((ground.walls & kOwnUid) != 0 && uid != 0) {
    // kill(-1) reaches every process of a uid at once, whoever forks meanwhile. The process that calls it is spared. As
    // root it would reach the whole machine.
    const pid_t killer = fork();
    if (killer == 0) {
      if (syscall(SYS_setresuid, uid, uid, uid) == 0) kill(-1, signal);
      _exit(0);
    }
    if (killer > 0) waitpid(killer, nullptr, 0);
  } else {
    SignalDescendants(signal, nullptr);
  }
}

// Returns once this process has no children: all of the room's processes are its descendants, and orphans become its
// children.
void EndAll(const Ground& ground, uid_t uid) {
  while (true) {
    pid_t reaped;
    while ((reaped = waitpid(-1, nullptr, WNOHANG)) > 0) continue;
    if (reaped < 0) return;  // ECHILD
    SignalAll(ground, uid, SIGKILL);
    // In a PID namespace one signal is enough. Elsewhere a process may have been missed.
    if ((ground.walls & kPidNamespace) != 0) {
      while (waitpid(-1, nullptr, 0) > 0) continue;
    } else {
      poll(nullptr, 0, 1);
    }
  }
}

int64_t Nanoseconds(const timeval& time) { return (int64_t{time.tv_sec} * 1'000'000 + time.tv_usec) * 1000; }

// Waits for the end of the command `pid`, and reaps orphans meanwhile.
class Keeper {
 public:
  Keeper(const Ground& ground, uid_t uid, pid_t command, int control)
      : ground_(ground), uid_(uid), command_(command), control_(control) {}

  [[noreturn]] void Run(int child_events) {
    while (!ended_) {
      pollfd fds[2] = {{control_, POLLIN, 0}, {child_events, POLLIN, 0}};
      if (poll(fds, 2, -1) < 0) continue;
      if (fds[1].revents != 0) {
        signalfd_siginfo info;
        [[maybe_unused]] const ssize_t got = read(child_events, &info, sizeof(info));
        Reap();
      }
      if (fds[0].revents != 0 && !ended_) Obey();
    }
    EndAll(ground_, uid_);
    [[maybe_unused]] const ssize_t sent = send(control_, &report_, sizeof(report_), MSG_NOSIGNAL);
    _exit(0);
  }

 private:
  void Reap() {
    int status = 0;
    rusage usage;
    pid_t pid;
    while ((pid = wait4(-1, &status, WNOHANG, &usage)) > 0) {
      if (pid == command_) Note(status, usage);
    }
  }

  void Note(int status, const rusage& usage) {
    ended_ = true;
    report_.wait_status = status;
    report_.cpu_ns = Nanoseconds(usage.ru_utime) + Nanoseconds(usage.ru_stime);
    report_.max_rss_kib = usage.ru_maxrss;
  }

  void Obey() {
    char order = 0;
    const ssize_t got = recv(control_, &order, 1, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got == 1 && order == kTerminate) {
      SignalAll(ground_, uid_, SIGTERM);
      return;
    }
    // kKill, or the owner is gone. The command's first process is reaped apart, for its times.
    kill(command_, SIGKILL);
    int status = 0;
    rusage usage{};
    SignalAll(ground_, uid_, SIGKILL);
    while (wait4(command_, &status, 0, &usage) < 0 && errno == EINTR) continue;
    Note(status, usage);
  }

  const Ground& ground_;
  const uid_t uid_;
  const pid_t command_;
  const int control_;
  bool ended_ = false;
  LaunchReport report_;
};

}  // namespace

int CloneFlags(const Ground& ground) {
  int flags = SIGCHLD;
  if ((ground.walls & kUserNamespace) != 0) flags |= CLONE_NEWUSER;
  if ((ground.walls & kPidNamespace) != 0) flags |= CLONE_NEWPID;
  if ((ground.walls & kMountNamespace) != 0) flags |= CLONE_NEWNS;
  return flags;
}

void ReportFailure(int control, LaunchStep step, int error, int index) {
  LaunchReport report;
  report.failure = {step, error, index};
  [[maybe_unused]] const ssize_t sent = send(control, &report, sizeof(report), MSG_NOSIGNAL);
}

void RunRoom(const Ground& ground, const int (&fds)[kStartDescriptors]) {
  const int control = fds[4];
  prctl(PR_SET_DUMPABLE, 0);
  prctl(PR_SET_NAME, "ingot-room");
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  Start start;
  if (!ReadStart(fds[0], start)) {
    ReportFailure(control, LaunchStep::kMessage, EINVAL, 0);
    _exit(1);
  }
  if (const LaunchFailure failure = RaiseWall(ground, start); failure.step != LaunchStep::kNone) {
    ReportFailure(control, failure.step, failure.error, failure.index);
    _exit(1);
  }
  const uid_t uid = start.header->uid;
  if ((ground.walls & (kOwnUid | kPidNamespace)) == kOwnUid) SignalAll(ground, uid, SIGKILL);  // of a killed run
  sigset_t child;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  sigprocmask(SIG_SETMASK, &child, nullptr);
  const int child_events = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
  const pid_t command = StartCommand(ground, start, fds);
  if (command < 0) {
    ReportFailure(control, LaunchStep::kSession, errno, 0);
    _exit(1);
  }
  if (failed.step != LaunchStep::kNone) {
    waitpid(command, nullptr, 0);
    ReportFailure(control, failed.step, failed.error, failed.index);
    _exit(1);
  }
  for (int i = 0; i < 4; ++i) close(fds[i]);  // the command's output ends when its own processes end
  Keeper(ground, uid, command, control).Run(child_events);
}

}  // namespace ingot::sandbox::launcher
