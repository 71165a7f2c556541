#include "sandbox/sandbox_launcher.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/log.h"
#include "base/waits.h"
#include "sandbox/launch_socket.h"

namespace ingot::sandbox {
namespace {

// A launcher answers its SetUp within milliseconds, or within seconds if it searches shown folders.
constexpr int kSetUpTimeoutMs = 60'000;
constexpr int kOpenTimeoutMs = 60'000;
constexpr std::chrono::seconds kEndTimeout{10};
constexpr int kSocketTimeoutMs = 10'000;

std::string SetUpParcel(const SandboxLauncherOptions& options) {
  std::string strings;
  SetUpHeader header{.isolation = options.isolation,
                     .hidden = 0,
                     .visible = static_cast<uint32_t>(options.visible.size()),
                     .sources = static_cast<uint32_t>(options.sources.size()),
                     .filter_bytes = static_cast<uint32_t>(options.filter.size()),
                     .left_out = static_cast<uint32_t>(options.left_out)};
  AddString(strings, options.work_root);
  for (const std::string& path : options.hidden) {
    struct stat info;
    if (stat(path.c_str(), &info) != 0) continue;
    AddString(strings, absl::StrCat(S_ISDIR(info.st_mode) ? "d" : "f", path));
    ++header.hidden;
  }
  for (const auto* paths : {&options.visible, &options.sources}) {
    for (const std::string& path : *paths) AddString(strings, path);
  }
  return Parcel(header) + strings + options.filter;
}

std::string OpenParcel(const OpenOptions& sandbox) {
  const SandboxHeader header{
      .uid = static_cast<uint32_t>(sandbox.uid),
      .fake_root = sandbox.fake_root ? 1u : 0u,
      .layers = static_cast<uint32_t>(sandbox.layers.size()),
      .layered = sandbox.layered ? 1u : 0u,
      .binds = static_cast<uint32_t>(sandbox.binds.size()),
      .shm_bytes = static_cast<uint32_t>(sandbox.shm_bytes),
      .freezer = sandbox.freezer != nullptr ? static_cast<uint32_t>(sandbox.freezer->version()) : 0};
  std::string parcel = Parcel(header);
  for (const std::string* text : {&sandbox.work_root, &sandbox.sandbox, &sandbox.image}) AddString(parcel, *text);
  for (const auto* strings : {&sandbox.layers, &sandbox.binds}) {
    for (const std::string& text : *strings) AddString(parcel, text);
  }
  return parcel;
}

std::string StartParcel(const StartOptions& start) {
  StartHeader header{.checks = start.checks ? 1u : 0u,
                     .runs_stdin = start.runs_stdin ? 1u : 0u,
                     .stays = start.stays ? 1u : 0u,
                     .gateway_port = static_cast<uint32_t>(start.gateway_port),
                     .arguments = static_cast<uint32_t>(start.arguments.size()),
                     .variables = static_cast<uint32_t>(start.variables.size()),
                     .limits = static_cast<uint32_t>(start.limits.size()),
                     .limit = {}};
  std::copy(start.limits.begin(), start.limits.end(), header.limit);
  std::string parcel = Parcel(header);
  for (const std::string* text : {&start.working_dir, &start.path}) AddString(parcel, *text);
  for (const auto* strings : {&start.arguments, &start.variables}) {
    for (const std::string& text : *strings) AddString(parcel, text);
  }
  return parcel;
}

// Sets whether messages received on `socket` include the process that sent them.
void NameSenders(const Fd& socket, bool wanted) {
  const int value = wanted ? 1 : 0;
  setsockopt(socket.get(), SOL_SOCKET, SO_PASSCRED, &value, sizeof(value));
}

// Takes the descriptors from a sandbox's first process: the listener, the layered folders, or both.
void TakeDescriptors(const cmsghdr& control, OpenedSandbox& sandbox) {
  int fds[kMaxReportDescriptors];
  const size_t count = std::min<size_t>((control.cmsg_len - CMSG_LEN(0)) / sizeof(int), kMaxReportDescriptors);
  memcpy(fds, CMSG_DATA(&control), count * sizeof(int));
  size_t next = 0;
  if (count != 2) sandbox.listener.Reset(fds[next++]);
  if (count > 1) {
    sandbox.work.Reset(fds[next++]);
    sandbox.home.Reset(fds[next]);
  }
}

// Waits for the report from a sandbox's first process, with an OpenedSandbox's descriptors. The kernel adds the
// sender's id.
absl::Status AwaitSandbox(OpenedSandbox& sandbox, LaunchFailure& failure) {
  const base::Wait wait("the agent launcher, which is opening a sandbox");
  pollfd answer{sandbox.socket.get(), POLLIN, 0};
  int ready;
  do ready = poll(&answer, 1, kOpenTimeoutMs);
  while (ready < 0 && errno == EINTR);
  LaunchReport report;
  iovec data{&report, sizeof(report)};
  alignas(cmsghdr) char buffer[CMSG_SPACE(sizeof(int) * kMaxReportDescriptors) + CMSG_SPACE(sizeof(ucred))];
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = buffer;
  message.msg_controllen = sizeof(buffer);
  const ssize_t got = ready == 1 ? recvmsg(sandbox.socket.get(), &message, MSG_CMSG_CLOEXEC) : -1;
  if (got != sizeof(report)) {
    return absl::UnavailableError(ready == 1 ? "the first process of a sandbox died before its isolation was set up"
                                             : "a sandbox did not open within 60 s");
  }
  failure = report.failure;
  for (cmsghdr* control = CMSG_FIRSTHDR(&message); control != nullptr; control = CMSG_NXTHDR(&message, control)) {
    if (control->cmsg_level != SOL_SOCKET) continue;
    if (control->cmsg_type == SCM_RIGHTS) TakeDescriptors(*control, sandbox);
    if (control->cmsg_type == SCM_CREDENTIALS) {
      ucred sender{};
      memcpy(&sender, CMSG_DATA(control), sizeof(sender));
      sandbox.first = sender.pid;
    }
  }
  return absl::OkStatus();
}

const char* StepName(LaunchStep step) {
  switch (step) {
    case LaunchStep::kNone:
      return "no failure";
    case LaunchStep::kMessage:
      return "message to the launcher";
    case LaunchStep::kGroup:
      return "control group";
    case LaunchStep::kNamespaces:
      return "new process or namespaces (clone)";
    case LaunchStep::kIdMap:
      return "ids of the user namespace";
    case LaunchStep::kMounts:
      return "mounts in a new namespace";
    case LaunchStep::kHide:
      return "mount over a hidden path";
    case LaunchStep::kRoot:
      return "root folder of sandboxes";
    case LaunchStep::kLayers:
      return "layers of the sandbox's folders (overlayfs)";
    case LaunchStep::kProc:
      return "mount of /proc";
    case LaunchStep::kFolder:
      return "mount of the sandbox's folder";
    case LaunchStep::kNetwork:
      return "loopback interface of the sandbox";
    case LaunchStep::kSession:
      return "descriptors of the command";
    case LaunchStep::kUid:
      return "changing the uid";
    case LaunchStep::kLimit:
      return "resource limit (above this process's own hard limit?)";
    case LaunchStep::kFilter:
      return "system call filter (seccomp)";
    case LaunchStep::kLandlockRules:
      return "Landlock rules";
    case LaunchStep::kWorkingFolder:
      return "working folder";
    case LaunchStep::kExec:
      return "execution";
    case LaunchStep::kReach:
      return "access";
  }
  return "start";
}

}  // namespace

std::string DescribeFailure(const LaunchFailure& failure) {
  return absl::StrCat(StepName(failure.step), ": ", strerror(failure.error));
}

absl::StatusOr<std::unique_ptr<SandboxLauncher>> SandboxLauncher::Make(SandboxLauncherOptions options,
                                                                       LaunchFailure& failure) {
  std::unique_ptr<SandboxLauncher> launcher(new SandboxLauncher(std::move(options)));
  base::MutexLock lock(launcher->mu_);
  INGOT_RETURN_IF_ERROR(launcher->Begin(failure));
  return launcher;
}

SandboxLauncher::~SandboxLauncher() {
  base::MutexLock lock(mu_);
  End();
}

void SandboxLauncher::End() {
  socket_.Reset();
  if (pid_ <= 0) return;
  // It exits when its socket closes.
  const absl::Status ended = AwaitChild(pid_, "the agent launcher", kEndTimeout).status();
  if (!ended.ok()) INGOT_LOG(warn, "{}", std::string(ended.message()));
  pid_ = -1;
}

absl::Status SandboxLauncher::Begin(LaunchFailure& failure) {
  INGOT_ASSIGN_OR_RETURN(const Fd file, LauncherProgram());
  INGOT_ASSIGN_OR_RETURN(SocketPair pair, MakeSocketPair());
  INGOT_ASSIGN_OR_RETURN(const Fd set_up, MemoryFile("ingot-launcher-set-up", SetUpParcel(options_)));
  const Fd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!null.valid()) return ErrnoStatus(errno, "cannot open /dev/null");
  const Command command{.argv = {"ingot-launcher"}, .env = {}, .working_dir = "/", .stdin_text = ""};
  // Sandboxes limit their commands' core files. The launcher does not dump core because it cannot be traced.
  const absl::StatusOr<pid_t> pid =
      Spawn(command, {pair.theirs.get(), null.get(), null.get()}, {.dumps_core = true, .program_fd = file.get()});
  if (!pid.ok()) {
    return base::Annotate(
        pid.status(),
        "cannot start the agent launcher from a file in memory (the sysctl vm.memfd_noexec must not be 2)");
  }
  pid_ = *pid;
  socket_ = std::move(pair.ours);
  pair.theirs.Reset();
  LaunchReport report;
  pollfd answer{socket_.get(), POLLIN, 0};
  const bool answered = SendDescriptors(socket_.get(), {set_up.get()}) && poll(&answer, 1, kSetUpTimeoutMs) == 1 &&
                        recv(socket_.get(), &report, sizeof(report), 0) == sizeof(report);
  if (!answered) kill(pid_, SIGKILL);
  if (answered && report.failure.step == LaunchStep::kNone) return absl::OkStatus();
  End();
  if (!answered) return absl::UnavailableError("the agent launcher did not respond");
  failure = report.failure;
  return absl::FailedPreconditionError(DescribeFailure(failure));
}

absl::StatusOr<OpenedSandbox> SandboxLauncher::Open(const OpenOptions& options, LaunchFailure& failure) {
  INGOT_ASSIGN_OR_RETURN(const Fd parcel, MemoryFile("ingot-open", OpenParcel(options)));
  INGOT_ASSIGN_OR_RETURN(SocketPair pair, MakeSocketPair());
  std::vector<int> fds = {parcel.get(), pair.theirs.get()};
  fds.insert(fds.end(), options.groups.begin(), options.groups.end());
  if (options.freezer != nullptr) fds.insert(fds.end(), {options.freezer->entrance(), options.freezer->state()});
  OpenedSandbox sandbox;
  sandbox.socket = std::move(pair.ours);
  NameSenders(sandbox.socket, true);
  INGOT_RETURN_IF_ERROR(Ask(fds));
  pair.theirs.Reset();
  INGOT_RETURN_IF_ERROR(AwaitSandbox(sandbox, failure));
  NameSenders(sandbox.socket, false);  // not needed for later messages
  return sandbox;
}

absl::Status SandboxLauncher::Ask(const std::vector<int>& fds) {
  base::MutexLock lock(mu_);
  if (socket_.valid() && SendDescriptors(socket_.get(), fds)) return absl::OkStatus();
  INGOT_LOG(warn, "the agent launcher died ({}): restarting it; running agents continue", strerror(errno));
  End();
  LaunchFailure failure;
  INGOT_RETURN_IF_ERROR(Begin(failure));
  if (SendDescriptors(socket_.get(), fds)) return absl::OkStatus();
  return ErrnoStatus(errno, "the agent launcher does not open sandboxes");
}

absl::StatusOr<Fd> StartIn(const Fd& sandbox, const StartOptions& start, const SpawnIo& io) {
  INGOT_ASSIGN_OR_RETURN(const Fd parcel, MemoryFile("ingot-start", StartParcel(start)));
  INGOT_ASSIGN_OR_RETURN(SocketPair control, MakeSocketPair());
  if (SendDescriptors(sandbox.get(), {parcel.get(), io.in, io.out, io.err, control.theirs.get()})) {
    return std::move(control.ours);
  }
  return absl::UnavailableError(absl::StrCat("the first process of the agent's sandbox has exited: ", strerror(errno)));
}

absl::StatusOr<Fd> SocketOf(const Fd& sandbox) {
  char byte = 0;
  iovec data{&byte, 1};
  alignas(cmsghdr) char buffer[CMSG_SPACE(sizeof(int))];
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = buffer;
  message.msg_controllen = sizeof(buffer);
  pollfd answer{sandbox.get(), POLLIN, 0};
  if (send(sandbox.get(), &kSocket, 1, MSG_NOSIGNAL) == 1 && poll(&answer, 1, kSocketTimeoutMs) == 1 &&
      recvmsg(sandbox.get(), &message, MSG_CMSG_CLOEXEC) == 1) {
    const cmsghdr* const control = CMSG_FIRSTHDR(&message);
    int fd = -1;
    if (control != nullptr && control->cmsg_type == SCM_RIGHTS) memcpy(&fd, CMSG_DATA(control), sizeof(fd));
    if (fd >= 0) return Fd(fd);
  }
  return absl::UnavailableError("the first process of the agent's sandbox returned no socket");
}

pid_t SandboxLauncher::pid() const {
  base::MutexLock lock(mu_);
  return pid_;
}

}  // namespace ingot::sandbox
