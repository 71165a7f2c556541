#include "sandbox/launcher/sandbox_init.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <initializer_list>

#include "sandbox/launcher/apart.h"
#include "sandbox/launcher/command.h"
#include "sandbox/launcher/descendants.h"
#include "sandbox/launcher/ipc.h"
#include "sandbox/launcher/isolation_steps.h"
#include "sandbox/launcher/left_out.h"
#include "sandbox/launcher/network.h"
#include "sandbox/launcher/parcel.h"
#include "sandbox/launcher/root.h"

namespace ingot::sandbox::launcher {
namespace {

bool ReadPlan(int fd, SandboxPlan& plan) {
  Parcel parcel(fd);
  plan.header = parcel.TakeHeader<SandboxHeader>();
  if (plan.header == nullptr) return false;
  plan.work_root = parcel.TakeString();
  plan.sandbox = parcel.TakeString();
  plan.image = parcel.TakeString();
  if (plan.image == nullptr) return false;
  plan.layers = parcel.TakeStrings(plan.header->layers);
  if (plan.layers != nullptr) plan.binds = parcel.TakeStrings(plan.header->binds);
  return plan.binds != nullptr;
}

// Sets up one sandbox's isolation.
LaunchFailure SetUpIsolation(const Ground& ground, const SandboxPlan& plan, int (&fds)[kMaxReportDescriptors]) {
  if ((ground.isolation & kUserNamespace) != 0) {
    if (const int error = MapIds(ground.uid, ground.gid)) return {LaunchStep::kIdMap, error, 0};
  }
  if ((ground.isolation & kPrivateProc) != 0 && Raises(Measure::kOwnProc)) {
    if (const int error = MountProc()) return {LaunchStep::kProc, error, 0};
  }
  if ((ground.isolation & kNetNamespace) != 0) {
    fds[0] = ListenInside();
    if (fds[0] < 0) return {LaunchStep::kNetwork, errno, 0};
  }
  if ((ground.isolation & kRootFolder) != 0) sethostname("sandbox", 7);
  const bool has_sandbox = plan.sandbox[0] != 0;
  if ((ground.isolation & kOwnUid) != 0 && (ground.isolation & kMountNamespace) != 0 && has_sandbox &&
      plan.image[0] == 0) {
    if (const int error = NameUid(plan.sandbox)) return {LaunchStep::kFolder, error, 0};
  }
  if ((ground.isolation & kRootFolder) != 0) {
    int layered[2] = {-1, -1};
    const LaunchFailure failure = EnterSandbox(plan, ground.isolation, ground.visible, ground.visible_count, layered);
    fds[1] = layered[0];
    fds[2] = layered[1];
    return failure;
  }
  if ((ground.isolation & (kMountNamespace | kOwnUid)) == kMountNamespace && has_sandbox) {
    if (const int error = ShowOneSandbox(plan.work_root, plan.sandbox)) return {LaunchStep::kFolder, error, 0};
  }
  return {};
}

// Signals every process in the sandbox except this one. `uid` is the sandbox's uid, if it has one.
void SignalAll(const Ground& ground, uid_t uid, int signal) {
  // The first process of a PID namespace can reach only that namespace.
  if ((ground.isolation & kPidNamespace) != 0 && getpid() == 1) {
    kill(-1, signal);
  } else if ((ground.isolation & kOwnUid) != 0 && uid != 0) {
    // kill(-1) reaches all processes of a uid at once, even if one forks in the meantime, except for the calling
    // process. As root, it would reach the entire machine.
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

// Thaws frozen commands, so that killed processes end without running another instruction.
void Thaw(const SandboxPlan& plan) {
  if (plan.freezer_state < 0) return;
  const char* const text = plan.header->freezer == 1 ? "THAWED" : "0";
  [[maybe_unused]] const ssize_t wrote = pwrite(plan.freezer_state, text, strlen(text), 0);
}

// Returns once this process has no children. All of the sandbox's processes are its descendants, and orphans become its
// children.
void EndAll(const Ground& ground, const SandboxPlan& plan) {
  while (true) {
    pid_t reaped;
    while ((reaped = waitpid(-1, nullptr, WNOHANG)) > 0) continue;
    if (reaped < 0) return;  // ECHILD
    SignalAll(ground, plan.header->uid, SIGKILL);
    Thaw(plan);
    // In a PID namespace, one signal is enough. Elsewhere, a process may have been missed.
    if ((ground.isolation & kPidNamespace) != 0) {
      while (waitpid(-1, nullptr, 0) > 0) continue;
    } else {
      poll(nullptr, 0, 1);
    }
  }
}

int64_t Nanoseconds(const timeval& time) { return (int64_t{time.tv_sec} * 1'000'000 + time.tv_usec) * 1000; }

// Waits for the command `pid` to end, and reaps orphans in the meantime.
class Keeper {
 public:
  // `ends` belongs to a command that was started apart (apart.h); otherwise -1.
  Keeper(const Ground& ground, const SandboxPlan& plan, pid_t command, int ends, int control, int sandbox)
      : ground_(ground),
        plan_(plan),
        uid_(plan.header->uid),
        command_(command),
        ends_(ends),
        control_(control),
        sandbox_(sandbox) {}

  // Returns false if the sandbox must end.
  bool Run(int child_events) {
    while (!ended_) {
      pollfd fds[3] = {{control_, POLLIN, 0}, {child_events, POLLIN, 0}, {sandbox_, POLLIN, 0}};
      if (poll(fds, 3, -1) < 0) continue;
      if (fds[1].revents != 0) {
        signalfd_siginfo info;
        [[maybe_unused]] const ssize_t got = read(child_events, &info, sizeof(info));
        Reap();
      }
      if (fds[0].revents != 0 && !ended_) Obey();
      if (fds[2].revents != 0 && !ended_) EndSandbox();
    }
    EndAll(ground_, plan_);
    [[maybe_unused]] const ssize_t sent = send(control_, &report_, sizeof(report_), MSG_NOSIGNAL);
    return !sandbox_ended_;
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
    CommandEnd end;
    if (ends_ < 0 || read(ends_, &end, sizeof(end)) != sizeof(end)) return;
    report_.wait_status = end.wait_status;
    report_.cpu_ns = end.cpu_ns;
    report_.max_rss_kib = end.max_rss_kib;
  }

  void Obey() {
    char order = 0;
    const ssize_t got = recv(control_, &order, 1, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got == 1 && order == kTerminate) {
      SignalAll(ground_, uid_, SIGTERM);
      return;
    }
    Kill();  // kKill, or the owner has exited
  }

  // No requests arrive while a command runs.
  void EndSandbox() {
    char order = 0;
    const ssize_t got = recv(sandbox_, &order, 1, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    sandbox_ended_ = true;
    Kill();
  }

  // The command's first process is reaped separately to get its times.
  void Kill() {
    kill(command_, SIGKILL);
    int status = 0;
    rusage usage{};
    SignalAll(ground_, uid_, SIGKILL);
    Thaw(plan_);
    while (wait4(command_, &status, 0, &usage) < 0 && errno == EINTR) continue;
    Note(status, usage);
  }

  const Ground& ground_;
  const SandboxPlan& plan_;
  const uid_t uid_;
  const pid_t command_;
  const int ends_, control_, sandbox_;
  bool ended_ = false, sandbox_ended_ = false;
  LaunchReport report_;
};

// Runs one Start to its end. Returns false if the sandbox must end. `has_companions`: true = companions may be running.
bool RunStart(const Ground& ground, const SandboxPlan& plan, const int (&fds)[kStartDescriptors], int sandbox,
              int child_events, bool& has_companions) {
  const int control = fds[4];
  Start start;
  if (!ReadStart(fds[0], start)) {
    ReportFailure(control, LaunchStep::kMessage, EINVAL, 0);
    return true;
  }
  LaunchFailure failure;
  int ends = -1;
  const bool stays = start.header->stays != 0;
  const bool is_apart =
      !stays && has_companions && (ground.isolation & kRootFolder) != 0 && Raises(Measure::kApartFromCompanions);
  const pid_t command =
      is_apart ? StartApart(ground, plan, start, fds, failure, ends) : StartCommand(ground, plan, start, fds, failure);
  if (command < 0) {
    ReportFailure(control, LaunchStep::kSession, errno, 0);
    return true;
  }
  if (failure.step != LaunchStep::kNone) {
    waitpid(command, nullptr, 0);
    if (ends >= 0) close(ends);
    ReportFailure(control, failure.step, failure.error, failure.index);
    return true;
  }
  if (stays) {
    has_companions = true;
    const LaunchReport runs;
    [[maybe_unused]] const ssize_t sent = send(control, &runs, sizeof(runs), MSG_NOSIGNAL);
    return true;
  }
  for (int i = 1; i < 4; ++i) close(fds[i]);  // the command's output must end when its own processes end
  const bool goes_on = Keeper(ground, plan, command, ends, control, sandbox).Run(child_events);
  has_companions = false;
  if (ends >= 0) close(ends);
  return goes_on;
}

void GiveSocket(int sandbox) {
  int fds[kMaxReportDescriptors] = {NewSocket(), -1, -1};
  Answer(sandbox, &kSocket, 1, fds);
}

// Used if the sandbox has no IPC namespace.
void RemoveLeftIpc(const Ground& ground, uid_t uid) {
  if ((ground.isolation & kOwnUid) != 0 && (ground.isolation & kRootFolder) == 0 && uid != 0 &&
      Raises(Measure::kLeftIpcRemoved)) {
    RemoveIpcOf(uid);
  }
}

// Handles the Starts received on the sandbox's socket one after another, until it is closed.
[[noreturn]] void ServeSandbox(const Ground& ground, const SandboxPlan& plan, int sandbox) {
  sigset_t child;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  sigprocmask(SIG_SETMASK, &child, nullptr);
  const int child_events = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
  bool has_companions = false;
  for (bool goes_on = true; goes_on;) {
    const Incoming incoming = Receive(sandbox);
    if (!incoming.open) break;
    if (incoming.count != kStartDescriptors) {
      for (int i = 0; i < incoming.count; ++i) close(incoming.fds[i]);
      if (incoming.byte == kSocket) GiveSocket(sandbox);
      continue;
    }
    int fds[kStartDescriptors];
    memcpy(fds, incoming.fds, sizeof(fds));
    goes_on = RunStart(ground, plan, fds, sandbox, child_events, has_companions);
    for (const int i : {0, 1, 2, 3, 4}) close(fds[i]);
  }
  EndAll(ground, plan);
  RemoveLeftIpc(ground, plan.header->uid);
  _exit(0);
}

}  // namespace

void OfferToTheKernel() {
  if (!Raises(Measure::kEndsFirstWithoutMemory)) return;
  const int score = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (score < 0) return;
  [[maybe_unused]] const ssize_t wrote = write(score, "1000", 4);
  close(score);
}

LaunchFailure EnterGroups(const int* groups, int count) {
  for (int i = 0; i < count; ++i) {
    if (write(groups[i], "0", 1) != 1) return {LaunchStep::kGroup, errno, i};
    close(groups[i]);
  }
  return {};
}

void Answer(int socket, const void* bytes, size_t size, int (&fds)[kMaxReportDescriptors]) {
  int passed[kMaxReportDescriptors], count = 0;
  for (const int fd : fds) {
    if (fd >= 0) passed[count++] = fd;
  }
  iovec data{const_cast<void*>(bytes), size};
  alignas(cmsghdr) char buffer[CMSG_SPACE(sizeof(passed))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  if (count > 0) {
    message.msg_control = buffer;
    message.msg_controllen = CMSG_SPACE(sizeof(int) * static_cast<size_t>(count));
    cmsghdr* const control = CMSG_FIRSTHDR(&message);
    control->cmsg_level = SOL_SOCKET;
    control->cmsg_type = SCM_RIGHTS;
    control->cmsg_len = CMSG_LEN(sizeof(int) * static_cast<size_t>(count));
    memcpy(CMSG_DATA(control), passed, sizeof(int) * static_cast<size_t>(count));
  }
  [[maybe_unused]] const ssize_t sent = sendmsg(socket, &message, MSG_NOSIGNAL);
  for (int i = 0; i < count; ++i) close(passed[i]);
}

Incoming Receive(int socket) {
  Incoming incoming;
  iovec data{&incoming.byte, 1};
  alignas(cmsghdr) char buffer[CMSG_SPACE(sizeof(incoming.fds))];
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = buffer;
  message.msg_controllen = sizeof(buffer);
  const ssize_t got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN)) incoming.open = false;
  const cmsghdr* const control = got > 0 ? CMSG_FIRSTHDR(&message) : nullptr;
  if (control != nullptr && control->cmsg_level == SOL_SOCKET && control->cmsg_type == SCM_RIGHTS) {
    incoming.count = static_cast<int>((control->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    memcpy(incoming.fds, CMSG_DATA(control), static_cast<size_t>(incoming.count) * sizeof(int));
  }
  return incoming;
}

int CloneFlags(const Ground& ground) {
  int flags = SIGCHLD;
  const auto add = [&](uint32_t part, Measure measure, int flag) {
    if ((ground.isolation & part) != 0) flags |= FlagOf(measure, flag);
  };
  add(kUserNamespace, Measure::kUserNamespaceOfSandbox, CLONE_NEWUSER);
  add(kPidNamespace, Measure::kPidNamespaceOfSandbox, CLONE_NEWPID);
  add(kMountNamespace, Measure::kMountNamespaceOfSandbox, CLONE_NEWNS);
  add(kRootFolder, Measure::kIpcNamespaceOfSandbox, CLONE_NEWIPC);
  add(kRootFolder, Measure::kHostNameNamespaceOfSandbox, CLONE_NEWUTS);
  add(kNetNamespace, Measure::kNetworkNamespaceOfSandbox, CLONE_NEWNET);
  return flags;
}

void ReportFailure(int control, LaunchStep step, int error, int index) {
  LaunchReport report;
  report.failure = {step, error, index};
  [[maybe_unused]] const ssize_t sent = send(control, &report, sizeof(report), MSG_NOSIGNAL);
}

void RunSandbox(const Ground& ground, const Incoming& open) {
  const int sandbox = open.fds[1];
  OfferToTheKernel();  // while the file belongs to this user
  prctl(PR_SET_DUMPABLE, Raises(Measure::kFirstUntraceable) ? 0 : 1);
  prctl(PR_SET_NAME, "ingot-sandbox");
  if (Raises(Measure::kAdoptsOrphans)) prctl(PR_SET_CHILD_SUBREAPER, 1);
  SandboxPlan plan;
  if (!ReadPlan(open.fds[0], plan)) {
    ReportFailure(sandbox, LaunchStep::kMessage, EINVAL, 0);
    _exit(1);
  }
  close(open.fds[0]);
  int fds[kMaxReportDescriptors] = {-1, -1, -1};
  LaunchReport report;
  int groups = open.count - kOpenDescriptors;
  if (plan.header->freezer != 0) {
    groups -= kFreezerDescriptors;
    plan.freezer_entrance = open.fds[kOpenDescriptors + groups];
    plan.freezer_state = open.fds[kOpenDescriptors + groups + 1];
  }
  report.failure = EnterGroups(open.fds + kOpenDescriptors, groups);
  if (report.failure.step == LaunchStep::kNone) report.failure = SetUpIsolation(ground, plan, fds);
  if (report.failure.step != LaunchStep::kNone) {
    ReportFailure(sandbox, report.failure.step, report.failure.error, report.failure.index);
    _exit(1);
  }
  const uid_t uid = plan.header->uid;
  // Processes left by a killed run.
  if ((ground.isolation & (kOwnUid | kPidNamespace)) == kOwnUid) SignalAll(ground, uid, SIGKILL);
  RemoveLeftIpc(ground, uid);
  Answer(sandbox, &report, sizeof(report), fds);
  ServeSandbox(ground, plan, sandbox);
}

}  // namespace ingot::sandbox::launcher
