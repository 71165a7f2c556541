// The launcher starts sandboxes' first processes. It is a small process next to Ingot, without threads or keys. So an
// agent's parent process has no secrets, and starting one does not copy any of Ingot's pages. The launcher serves its
// socket, stdin, until Ingot exits, which closes the socket. Each sandbox's first process then ends its sandbox.
//
// src/sandbox/sandbox_launcher.h starts the launcher and communicates with it. launch_messages.h defines the messages.
// With an argument, the program runs one image build instead (launcher/build.h).
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox/image/build_messages.h"
#include "sandbox/launch_messages.h"
#include "sandbox/launcher/build.h"
#include "sandbox/launcher/descendants.h"
#include "sandbox/launcher/isolation_steps.h"
#include "sandbox/launcher/landlock.h"
#include "sandbox/launcher/left_out.h"
#include "sandbox/launcher/parcel.h"
#include "sandbox/launcher/root.h"
#include "sandbox/launcher/sandbox_init.h"

namespace ingot::sandbox::launcher {
namespace {

constexpr int kSocket = 0;

// Maximum number of running first processes. agents.concurrency is at most 4096, and the pool adds some more.
constexpr int kMaxSandboxes = 8192;
pid_t sandboxes[kMaxSandboxes];
int sandbox_count = 0;

bool IsSandbox(pid_t pid) {
  for (int i = 0; i < sandbox_count; ++i) {
    if (sandboxes[i] == pid) return true;
  }
  return false;
}

void Forget(pid_t pid) {
  for (int i = 0; i < sandbox_count; ++i) {
    if (sandboxes[i] == pid) sandboxes[i] = sandboxes[--sandbox_count];
  }
}

LaunchFailure SetUp(int file, Ground& ground) {
  Parcel parcel(file);
  const auto* const header = parcel.TakeHeader<SetUpHeader>();
  const char* const work_root = header == nullptr ? nullptr : parcel.TakeString();
  char** const hidden = work_root == nullptr ? nullptr : parcel.TakeStrings(header->hidden);
  char** const visible = hidden == nullptr ? nullptr : parcel.TakeStrings(header->visible);
  char** const sources = visible == nullptr ? nullptr : parcel.TakeStrings(header->sources);
  if (sources == nullptr || header->filter_bytes > kMaxFilterBytes) return {LaunchStep::kMessage, EINVAL, 0};
  const void* const filter = parcel.TakeBytes(header->filter_bytes);
  if (filter == nullptr) return {LaunchStep::kMessage, EINVAL, 0};
  ground = {.isolation = header->isolation,
            .uid = geteuid(),
            .gid = getegid(),
            .visible = visible,
            .visible_count = header->visible,
            .filter = filter,
            .filter_bytes = header->filter_bytes};
  left_out = static_cast<Measure>(header->left_out);
  if ((ground.isolation & kLandlock) != 0 && LandlockVersion() == 0) return {LaunchStep::kLandlockRules, ENOSYS, 0};
  if ((ground.isolation & kMountNamespace) == 0) return {};
  const bool user = (ground.isolation & kUserNamespace) != 0;
  const int flags =
      FlagOf(Measure::kLauncherMounts, CLONE_NEWNS) | (user ? FlagOf(Measure::kLauncherUsers, CLONE_NEWUSER) : 0);
  if (unshare(flags) != 0) return {LaunchStep::kNamespaces, errno, 0};
  if (user) {
    if (const int error = MapIds(ground.uid, ground.gid)) return {LaunchStep::kIdMap, error, 0};
  }
  if (const int error = DetachMounts()) return {LaunchStep::kMounts, error, 0};
  for (uint32_t i = 0; i < header->hidden; ++i) {
    if (const int error = HidePath(hidden[i] + 1, hidden[i][0] == 'd')) {
      return {LaunchStep::kHide, error, static_cast<int32_t>(i)};
    }
  }
  if ((ground.isolation & kRootFolder) == 0) return {};
  const int error = BuildRoot({.work_root = work_root,
                               .visible = visible,
                               .visible_count = header->visible,
                               .sources = sources,
                               .source_count = header->sources,
                               .maps_owners = !user});
  return {error == 0 ? LaunchStep::kNone : LaunchStep::kRoot, error, 0};
}

void OpenSandbox(const Ground& ground, const Incoming& open) {
  const int sandbox = open.fds[1];
  if (sandbox_count == kMaxSandboxes) {
    ReportFailure(sandbox, LaunchStep::kNamespaces, EAGAIN, 0);
    return;
  }
  // fork(2) with namespaces. This process has no threads.
  const auto pid = static_cast<pid_t>(syscall(SYS_clone, CloneFlags(ground), nullptr, nullptr, nullptr, nullptr));
  if (pid == 0) {
    close(kSocket);
    RunSandbox(ground, open);
  }
  if (pid > 0) {
    sandboxes[sandbox_count++] = pid;
  } else {
    ReportFailure(sandbox, LaunchStep::kNamespaces, errno, 0);
  }
}

// If a sandbox's first process was killed, the launcher adopts its processes. Returns whether none are left.
bool EndOrphans() { return SignalDescendants(SIGKILL, IsSandbox) == 0; }

[[noreturn]] void Serve(const Ground& ground) {
  sigset_t child;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  sigprocmask(SIG_SETMASK, &child, nullptr);
  const int child_events = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
  bool orphans = false;  // there may be orphans
  while (true) {
    pollfd fds[2] = {{kSocket, POLLIN, 0}, {child_events, POLLIN, 0}};
    if (poll(fds, 2, orphans ? 1 : -1) < 0) continue;
    if (fds[0].revents != 0) {
      const Incoming open = Receive(kSocket);
      if (!open.open) _exit(0);
      if (open.count >= kOpenDescriptors) OpenSandbox(ground, open);
      for (int i = 0; i < open.count; ++i) close(open.fds[i]);
    }
    if (fds[1].revents != 0) {
      signalfd_siginfo info;
      [[maybe_unused]] const ssize_t got = read(child_events, &info, sizeof(info));
      int status = 0;
      pid_t pid;
      while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        if (IsSandbox(pid) && WIFSIGNALED(status)) orphans = true;
        Forget(pid);
      }
    }
    if (orphans) orphans = !EndOrphans();
  }
}

[[noreturn]] void Main() {
  prctl(PR_SET_NAME, "ingot-launcher");
  const Incoming set_up = Receive(kSocket);
  if (set_up.count != kSetUpDescriptors) _exit(1);
  Ground ground;
  LaunchReport report;
  report.failure = SetUp(set_up.fds[0], ground);
  close(set_up.fds[0]);
  if (Raises(Measure::kLauncherUntraceable)) prctl(PR_SET_DUMPABLE, 0);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  if (send(kSocket, &report, sizeof(report), MSG_NOSIGNAL) < 0) _exit(1);
  Serve(ground);
}

}  // namespace
}  // namespace ingot::sandbox::launcher

int main(int argc, char** argv) {
  if (argc > 1 && strcmp(argv[1], ingot::sandbox::kBuildMode) == 0) ingot::sandbox::launcher::RunBuild();
  ingot::sandbox::launcher::Main();
}
