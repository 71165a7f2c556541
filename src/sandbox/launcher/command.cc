#include "sandbox/launcher/command.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sandbox/launcher/apart.h"
#include "sandbox/launcher/isolation_steps.h"
#include "sandbox/launcher/landlock.h"
#include "sandbox/launcher/left_out.h"
#include "sandbox/launcher/parcel.h"

namespace ingot::sandbox::launcher {
namespace {

// The child writes its failure here between vfork and exec, in its parent's memory.
volatile LaunchFailure failed;

[[noreturn]] void Fail(LaunchStep step, int index = 0) {
  failed.error = errno;
  failed.index = index;
  failed.step = step;
  _exit(127);
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

// Uses raw system calls, because the C library's functions would take locks, and this memory belongs to the parent.
void TakeUid(uid_t uid) {
  if (Raises(Measure::kNoOtherGroups) && syscall(SYS_setgroups, 0, nullptr) != 0) Fail(LaunchStep::kUid);
  if (Raises(Measure::kOwnGid) && syscall(SYS_setresgid, uid, uid, uid) != 0) Fail(LaunchStep::kUid);
  if (Raises(Measure::kOwnUidTaken) && syscall(SYS_setresuid, uid, uid, uid) != 0) Fail(LaunchStep::kUid);
}

// In its own user namespace, the command has uid 0, as an image's programs expect. It has no power over other uids,
// mounts, and networks, which belong to outer namespaces.
void BecomeFakeRoot() {
  const uid_t uid = geteuid();
  const gid_t gid = getegid();
  if (unshare(CLONE_NEWUSER) != 0) Fail(LaunchStep::kUid, 1);
  if (const int error = MapIdsTo(0, uid, gid)) {
    errno = error;
    Fail(LaunchStep::kIdMap, 1);
  }
}

void TakeRights(const Ground& ground, const SandboxPlan& sandbox) {
  const bool keeps = (ground.isolation & kKeepsCapabilities) != 0;
  if (!keeps && BoundCapabilities() != 0) Fail(LaunchStep::kUid);
  if ((ground.isolation & kOwnUid) != 0) TakeUid(sandbox.header->uid);
  if (sandbox.header->fake_root != 0) {
    BecomeFakeRoot();
  } else if (!keeps && DropCapabilities() != 0) {
    Fail(LaunchStep::kUid);
  }
}

// Applied last, because the earlier steps make calls that these rules forbid.
void TakeRules(const Ground& ground, const Start& start, const SandboxPlan& sandbox) {
  if ((ground.isolation & kLandlock) != 0) {
    const LandlockPlan plan{sandbox.sandbox, ground.visible, ground.visible_count, start.header->gateway_port};
    if (const int error = RestrictToPlan(plan)) {
      errno = error;
      Fail(LaunchStep::kLandlockRules);
    }
  }
  if ((ground.isolation & kSeccomp) != 0 && Raises(Measure::kFilter)) {
    sock_fprog program{static_cast<unsigned short>(ground.filter_bytes / sizeof(sock_filter)),
                       reinterpret_cast<sock_filter*>(const_cast<void*>(ground.filter))};
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) != 0) Fail(LaunchStep::kFilter);
  }
}

void Check(const Start& start) {
  for (uint32_t i = 0; i < start.header->arguments; ++i) {
    const char* const needed = start.arguments[i];
    if (access(needed + 1, needed[0] == 'x' ? X_OK : R_OK) != 0) Fail(LaunchStep::kReach, static_cast<int>(i));
  }
  _exit(0);
}

// Like execvpe, without the fallback to a shell.
void Execute(const Start& start) {
  if (start.header->runs_stdin != 0) {
    syscall(SYS_execveat, 0, "", start.arguments, start.variables, AT_EMPTY_PATH);
    Fail(LaunchStep::kExec);
  }
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

[[noreturn]] void RunCommandProcess(const Ground& ground, const SandboxPlan& sandbox, const Start& start,
                                    const int (&fds)[kStartDescriptors]) {
  if (Raises(Measure::kOwnSession)) setsid();
  if (sandbox.freezer_entrance >= 0 && write(sandbox.freezer_entrance, "0", 1) != 1) Fail(LaunchStep::kGroup, -1);
  for (int i = 0; i < 3; ++i) {
    if (dup2(fds[i + 1], i) < 0) Fail(LaunchStep::kSession);
  }
  if (start.header->stays != 0 && (ground.isolation & kRootFolder) != 0) {
    if (const int error = SeparateShared(sandbox.header->shm_bytes)) {
      errno = error;
      Fail(LaunchStep::kFolder, 5);
    }
  }
  TakeRights(ground, sandbox);
  if (Raises(Measure::kEndsWithItsParent)) prctl(PR_SET_PDEATHSIG, SIGKILL);  // after setting the uid, which clears it
  if (start.header->checks != 0) Check(start);
  if (start.working_dir[0] != 0 && chdir(start.working_dir) != 0) Fail(LaunchStep::kWorkingFolder);
  for (uint32_t i = 0; i < start.header->limits; ++i) {
    const LaunchLimit& wanted = start.header->limit[i];
    if (wanted.resource == RLIMIT_CORE && !Raises(Measure::kNoCoreFiles)) continue;
    const rlimit limit{wanted.value, wanted.value};
    if (setrlimit(static_cast<__rlimit_resource_t>(wanted.resource), &limit) != 0) {
      Fail(LaunchStep::kLimit, static_cast<int>(i));
    }
  }
  ResetSignals();
  TakeRules(ground, start, sandbox);
  Execute(start);
  _exit(127);
}

// A separate function, so that none of the caller's variables are in registers across vfork.
__attribute__((noinline)) pid_t Vfork(const Ground& ground, const SandboxPlan& sandbox, const Start& start,
                                      const int (&fds)[kStartDescriptors]) {
  const pid_t pid = vfork();
  if (pid == 0) RunCommandProcess(ground, sandbox, start, fds);
  return pid;
}

}  // namespace

bool ReadStart(int fd, Start& start) {
  Parcel parcel(fd);
  start.header = parcel.TakeHeader<StartHeader>();
  if (start.header == nullptr || start.header->limits > kMaxLaunchLimits) return false;
  start.working_dir = parcel.TakeString();
  start.path = parcel.TakeString();
  if (start.path == nullptr) return false;
  start.arguments = parcel.TakeStrings(start.header->arguments);
  if (start.arguments == nullptr || start.header->arguments == 0) return false;
  start.variables = parcel.TakeStrings(start.header->variables);
  return start.variables != nullptr;
}

pid_t StartCommand(const Ground& ground, const SandboxPlan& sandbox, const Start& start,
                   const int (&fds)[kStartDescriptors], LaunchFailure& failure) {
  failed.step = LaunchStep::kNone;
  const pid_t pid = Vfork(ground, sandbox, start, fds);
  failure = {failed.step, failed.error, failed.index};
  return pid;
}

}  // namespace ingot::sandbox::launcher
