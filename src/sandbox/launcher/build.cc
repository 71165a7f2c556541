#include "sandbox/launcher/build.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <initializer_list>

#include "sandbox/image/build_messages.h"
#include "sandbox/launch_messages.h"
#include "sandbox/launcher/isolation_steps.h"
#include "sandbox/launcher/network.h"
#include "sandbox/launcher/parcel.h"
#include "sandbox/launcher/root.h"
#include "sandbox/launcher/sandbox_init.h"

namespace ingot::sandbox::launcher {
namespace {

constexpr int kSocket = 0;
constexpr int kNotRun = 127;

struct Plan {
  const BuildHeader* header = nullptr;
  const char* scratch = nullptr;
  char** visible = nullptr;
  char** arguments = nullptr;
  char** variables = nullptr;
  const void* filter = nullptr;
};

bool Read(int fd, Plan& plan) {
  Parcel parcel(fd);
  plan.header = parcel.TakeHeader<BuildHeader>();
  if (plan.header == nullptr || plan.header->filter_bytes > kMaxFilterBytes || plan.header->arguments == 0)
    return false;
  plan.scratch = parcel.TakeString();
  if (plan.scratch == nullptr) return false;
  plan.visible = parcel.TakeStrings(plan.header->visible);
  if (plan.visible != nullptr) plan.arguments = parcel.TakeStrings(plan.header->arguments);
  if (plan.arguments != nullptr) plan.variables = parcel.TakeStrings(plan.header->variables);
  if (plan.variables != nullptr) plan.filter = parcel.TakeBytes(plan.header->filter_bytes);
  return plan.filter != nullptr;
}

[[noreturn]] void Reject(LaunchStep step, int error, int index = 0) {
  ReportFailure(kSocket, step, error, index);
  _exit(kNotRun);
}

void Report(int fd) {
  const LaunchReport report;
  int fds[kMaxReportDescriptors] = {fd, -1, -1};
  Answer(kSocket, &report, sizeof(report), fds);
}

// Returns a process's exit code as a shell reports it.
int CodeOf(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status); }

// Adds mounts at the places that the root folder's frame (root.h) provides. The machine's scratch folder may be below
// /tmp or /var, which these mounts cover, so the build sees it at another path. Setuid bits take effect there, but only
// within the user namespace.
int MountOwn(const Plan& plan) {
  constexpr const char* kBinds[][2] = {{kBuildScratch, ""}, {"/var", "/var"}, {"/tmp", "/tmp"}};
  char from[4096];
  for (const auto& [at, part] : kBinds) {
    snprintf(from, sizeof(from), "%s%s", part[0] == 0 ? plan.scratch : kBuildScratch, part);
    if (mount(from, at, nullptr, MS_BIND, nullptr) != 0) return errno;
    if (mount(nullptr, at, nullptr, MS_REMOUNT | MS_BIND | MS_NODEV, nullptr) != 0) return errno;
  }
  if (mount("ingot", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777,size=64m,nr_inodes=4096") != 0) return errno;
  // If this fails, only terminals are unavailable.
  mount("devpts", "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, "newinstance,ptmxmode=0666");
  return 0;
}

int WriteMap(pid_t pid, const char* file, const BuildHeader& header) {
  char path[64], map[64];
  snprintf(path, sizeof(path), "/proc/%d/%s", pid, file);
  const int size = snprintf(map, sizeof(map), "0 %u %u", header.first_id, header.ids);
  const int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return errno;
  const int error = write(fd, map, static_cast<size_t>(size)) == size ? 0 : errno;
  close(fd);
  return error;
}

// Returns whether buildah and its RUN steps need the capability. The others have no effect in namespaces that the
// machine's root owns, or expose parts of the kernel that a build does not need.
bool IsOfBuilds(int capability) {
  switch (capability) {
    case CAP_CHOWN:
    case CAP_DAC_OVERRIDE:
    case CAP_DAC_READ_SEARCH:
    case CAP_FOWNER:
    case CAP_FSETID:
    case CAP_KILL:
    case CAP_SETGID:
    case CAP_SETUID:
    case CAP_SETPCAP:
    case CAP_SETFCAP:
    case CAP_NET_BIND_SERVICE:
    case CAP_SYS_CHROOT:
    case CAP_SYS_ADMIN:
    case CAP_MKNOD:
    case CAP_AUDIT_WRITE:
      return true;
    default:
      return false;
  }
}

void BoundCapabilitiesOfBuilds() {
  for (int capability = 0; prctl(PR_CAPBSET_READ, capability, 0, 0, 0) >= 0; ++capability) {
    if (!IsOfBuilds(capability)) prctl(PR_CAPBSET_DROP, capability, 0, 0, 0);
  }
}

int InstallFilter(const Plan& plan) {
  sock_fprog program{static_cast<unsigned short>(plan.header->filter_bytes / sizeof(sock_filter)),
                     reinterpret_cast<sock_filter*>(const_cast<void*>(plan.filter))};
  return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0 ? 0 : errno;
}

[[noreturn]] void FailBuilder(const char* step, int error) {
  dprintf(2, "the build sandbox: %s: %s\n", step, strerror(error));
  _exit(kNotRun);
}

// `ready` signals that the user namespace exists, and `go` that it has its ids.
[[noreturn]] void RunBuilder(const Plan& plan, int ready, int go) {
  char byte = 0;
  if (unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWCGROUP) != 0) byte = static_cast<char>(errno);
  if (write(ready, &byte, 1) != 1 || byte != 0 || read(go, &byte, 1) != 1) _exit(kNotRun);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  BoundCapabilitiesOfBuilds();
  if (syscall(SYS_setgroups, 0, nullptr) != 0 || syscall(SYS_setresgid, 0, 0, 0) != 0 ||
      syscall(SYS_setresuid, 0, 0, 0) != 0)
    FailBuilder("uid", errno);
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // changing the uid clears it
  const int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (null < 0 || dup2(null, 0) < 0 || chdir("/") != 0) FailBuilder("stdin", errno);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  if (const int error = InstallFilter(plan)) FailBuilder("system call filter", error);
  execve(plan.arguments[0], plan.arguments, plan.variables);
  FailBuilder(plan.arguments[0], errno);
}

// Starts the builder in a user namespace with its ids and returns its pid.
pid_t StartBuilder(const Plan& plan) {
  int ready[2], go[2];
  if (pipe2(ready, O_CLOEXEC) != 0 || pipe2(go, O_CLOEXEC) != 0) Reject(LaunchStep::kSession, errno);
  const pid_t builder = fork();
  if (builder < 0) Reject(LaunchStep::kNamespaces, errno, 1);
  if (builder == 0) {
    close(go[1]);
    RunBuilder(plan, ready[1], go[0]);
  }
  close(ready[1]);
  char error = 0;
  if (read(ready[0], &error, 1) != 1) Reject(LaunchStep::kNamespaces, ECHILD, 1);
  if (error != 0) Reject(LaunchStep::kNamespaces, error, 1);
  for (const char* const file : {"uid_map", "gid_map"}) {
    if (const int failed = WriteMap(builder, file, *plan.header)) Reject(LaunchStep::kIdMap, failed);
  }
  if (write(go[1], "", 1) != 1) Reject(LaunchStep::kSession, errno);
  close(ready[0]);
  close(go[0]);
  close(go[1]);
  return builder;
}

// Runs the sandbox's process 1. `go` delivers a byte once this process's descriptor is being sent to Ingot, and closes
// when the keeper outside exits.
[[noreturn]] void RunFirst(const Plan& plan, int go) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  prctl(PR_SET_DUMPABLE, 0);
  char byte;
  if (read(go, &byte, 1) != 1) _exit(kNotRun);
  pollfd outside{go, POLLIN, 0};
  if (poll(&outside, 1, 0) != 0) _exit(kNotRun);  // it exited before prctl
  const int listener = ListenInside();
  if (listener < 0) Reject(LaunchStep::kNetwork, errno);
  sethostname("build", 5);
  if (const int error = DetachMounts()) Reject(LaunchStep::kMounts, error);
  if (const int error = MountProc()) Reject(LaunchStep::kProc, error);
  if (const int error = NameUid(plan.scratch)) Reject(LaunchStep::kFolder, error, 1);
  if (const int error = BuildRoot({plan.scratch, plan.visible, plan.header->visible})) Reject(LaunchStep::kRoot, error);
  if (const int error = MountOwn(plan)) Reject(LaunchStep::kFolder, error);
  const pid_t builder = StartBuilder(plan);
  Report(listener);
  close(kSocket);
  // From here on, it only waits.
  if (BoundCapabilities() != 0 || DropCapabilities() != 0) _exit(kNotRun);
  int status = 0;
  while (true) {
    const pid_t ended = waitpid(-1, &status, 0);
    if (ended == builder) _exit(CodeOf(status));
    if (ended < 0 && errno != EINTR) _exit(kNotRun);
  }
}

}  // namespace

void RunBuild() {
  prctl(PR_SET_NAME, "ingot-build");
  prctl(PR_SET_DUMPABLE, 0);
  const Incoming order = Receive(kSocket);
  Plan plan;
  if (order.count < 1 || !Read(order.fds[0], plan)) Reject(LaunchStep::kMessage, EINVAL);
  close(order.fds[0]);
  OfferToTheKernel();
  const LaunchFailure grouped = EnterGroups(order.fds + 1, order.count - 1);
  if (grouped.step != LaunchStep::kNone) Reject(grouped.step, grouped.error, grouped.index);
  int go[2];
  if (pipe2(go, O_CLOEXEC) != 0) Reject(LaunchStep::kSession, errno);
  int pidfd = -1;
  // fork(2) with namespaces. This process has no threads.
  constexpr int kFlags =
      CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_PIDFD | SIGCHLD;
  const auto first = static_cast<pid_t>(syscall(SYS_clone, kFlags, nullptr, &pidfd, nullptr, nullptr));
  if (first < 0) Reject(LaunchStep::kNamespaces, errno);
  if (first == 0) {
    close(go[1]);
    RunFirst(plan, go[0]);
  }
  close(go[0]);
  Report(pidfd);
  close(kSocket);
  [[maybe_unused]] const ssize_t wrote = write(go[1], "", 1);
  int status = 0;
  while (waitpid(first, &status, 0) < 0 && errno == EINTR) continue;
  _exit(CodeOf(status));
}

}  // namespace ingot::sandbox::launcher
