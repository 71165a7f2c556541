#include "sandbox/image/build_sandbox.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "base/log.h"
#include "base/waits.h"
#include "sandbox/image/build_messages.h"
#include "sandbox/launch_messages.h"
#include "sandbox/launch_socket.h"
#include "sandbox/sandbox_launcher.h"
#include "sandbox/seccomp_filter.h"

namespace ingot::sandbox {
namespace {

// Above the uids of sandboxes, which end below 2^31 (sandbox.uid_base), and below (uid_t)-1.
constexpr uint32_t kFirstId = 1u << 31;
constexpr uint32_t kIds = 65536;
constexpr int64_t kMaxRanges = kFirstId / kIds - 1;
constexpr char kRangeLocks[] = "/run/ingot-build-ids";

constexpr GroupLimits kTotals{.memory_bytes = int64_t{8} << 30, .processes = 4096, .cpus = 0};
constexpr int kIsolationTimeoutMs = 60'000;
constexpr int kEndTimeoutMs = 10'000;

// Programs and the files in /etc that they need. Missing paths are skipped.
constexpr const char* kVisible[] = {"/usr",
                                    "/bin",
                                    "/sbin",
                                    "/lib",
                                    "/lib32",
                                    "/lib64",
                                    "/libx32",
                                    "/etc/alternatives",
                                    "/etc/ca-certificates",
                                    "/etc/containers",
                                    "/etc/crypto-policies",
                                    "/etc/ld.so.cache",
                                    "/etc/ld.so.conf",
                                    "/etc/ld.so.conf.d",
                                    "/etc/passwd",
                                    "/etc/pki",
                                    "/etc/ssl"};

std::string OrderOf(const BuildProgram& program, uint32_t first_id, const std::string& filter) {
  std::vector<std::string> visible(std::begin(kVisible), std::end(kVisible));
  visible.insert(visible.end(), program.visible.begin(), program.visible.end());
  std::vector<std::string> variables = program.variables;
  const std::string proxy = absl::StrCat("http://127.0.0.1:", kInsidePort);
  for (const char* const name : {"http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"})
    variables.push_back(absl::StrCat(name, "=", proxy));
  for (const char* const name : {"no_proxy", "NO_PROXY"})
    variables.push_back(absl::StrCat(name, "=localhost,127.0.0.1,::1"));
  std::string order = Parcel(BuildHeader{.first_id = first_id,
                                         .ids = kIds,
                                         .visible = static_cast<uint32_t>(visible.size()),
                                         .arguments = static_cast<uint32_t>(program.argv.size()),
                                         .variables = static_cast<uint32_t>(variables.size()),
                                         .filter_bytes = static_cast<uint32_t>(filter.size())});
  AddString(order, program.scratch);
  const std::vector<std::string>* const lists[] = {&visible, &program.argv, &variables};
  for (const auto* const texts : lists) {
    for (const std::string& text : *texts) AddString(order, text);
  }
  return order + filter;
}

// Covers the machine's /etc/passwd, because buildah looks up the name of its uid.
absl::Status WritePasswd(const std::string& scratch) {
  constexpr std::string_view kUsers = "root:x:0:0:root:/root:/bin/sh\n";
  const std::string path = scratch + "/passwd";
  const Fd file(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (!file.valid() || fchmod(file.get(), 0644) != 0 ||
      write(file.get(), kUsers.data(), kUsers.size()) != static_cast<ssize_t>(kUsers.size()))
    return ErrnoStatus(errno, absl::StrCat("cannot write ", path));
  return absl::OkStatus();
}

struct Report {
  LaunchFailure failure;
  Fd descriptor;
};

// Returns nullopt if the other end is closed or does not respond.
std::optional<Report> TakeReport(const Fd& socket) {
  pollfd answer{socket.get(), POLLIN, 0};
  int ready;
  do ready = poll(&answer, 1, kIsolationTimeoutMs);
  while (ready < 0 && errno == EINTR);
  LaunchReport report;
  iovec data{&report, sizeof(report)};
  alignas(cmsghdr) char buffer[CMSG_SPACE(sizeof(int))];
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = buffer;
  message.msg_controllen = sizeof(buffer);
  if (ready != 1 || recvmsg(socket.get(), &message, MSG_CMSG_CLOEXEC) != sizeof(report)) return std::nullopt;
  Report taken{.failure = report.failure, .descriptor = Fd()};
  const cmsghdr* const control = CMSG_FIRSTHDR(&message);
  if (control != nullptr && control->cmsg_level == SOL_SOCKET && control->cmsg_type == SCM_RIGHTS) {
    int fd = -1;
    memcpy(&fd, CMSG_DATA(control), sizeof(fd));
    taken.descriptor.Reset(fd);
  }
  return taken;
}

}  // namespace

absl::StatusOr<BuildSandbox> BuildSandbox::Make(const std::string& store, const EgressList& hosts) {
  if (geteuid() != 0) {
    return absl::FailedPreconditionError(
        "building an image needs root, because it uses a range of uids; build the image elsewhere, and use its archive "
        "(oci-archive:FILE)");
  }
  BuildSandbox sandbox(hosts);
  auto groups = ControlGroups::Make();
  if (!groups.ok()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "building an image needs control groups, which this machine does not allow (", groups.status().message(), ")"));
  }
  sandbox.groups_ = *std::move(groups);
  INGOT_ASSIGN_OR_RETURN(ControlGroup group, sandbox.groups_->NewGroup(kTotals));
  sandbox.group_.emplace(std::move(group));
  INGOT_RETURN_IF_ERROR(sandbox.TakeIds(store));
  return sandbox;
}

absl::Status BuildSandbox::TakeIds(const std::string& store) {
  // Range N is the byte at offset N + 1, because a range of uids begins at 1.
  auto ranges = UidRange::Open(1, kRangeLocks);
  if (!ranges.ok()) ranges = UidRange::Open(1, store + "/build-ids");  // /run is missing or read-only
  INGOT_RETURN_IF_ERROR(ranges.status());
  ranges_ = *std::move(ranges);
  INGOT_ASSIGN_OR_RETURN(const int64_t number, ranges_->Acquire());
  if (number > kMaxRanges) return absl::ResourceExhaustedError("all uid ranges for builds are in use: try again later");
  first_id_ = kFirstId + static_cast<uint32_t>(number - 1) * kIds;
  return absl::OkStatus();
}

BuildSandbox::~BuildSandbox() {
  if (!first_.valid()) return;
  const base::Wait wait("the end of an image build");
  syscall(SYS_pidfd_send_signal, first_.get(), SIGKILL, nullptr, 0);
  pollfd end{first_.get(), POLLIN, 0};
  int ready;
  do ready = poll(&end, 1, kEndTimeoutMs);
  while (ready < 0 && errno == EINTR);
  if (ready != 1) INGOT_LOG(warn, "processes of an image build have not ended {} ms after SIGKILL", kEndTimeoutMs);
}

absl::Status BuildSandbox::AwaitIsolation(const Fd& socket) {
  // First from the keeper outside, then from the first process.
  for (int i = 0; i < 2; ++i) {
    std::optional<Report> report = TakeReport(socket);
    if (!report.has_value())
      return absl::UnavailableError("the build's first process died before its sandbox was ready");
    if (report->failure.step != LaunchStep::kNone) {
      return absl::FailedPreconditionError(
          absl::StrCat("this machine does not allow a build sandbox (", DescribeFailure(report->failure), ")"));
    }
    if (!report->descriptor.valid()) return absl::UnavailableError("a build process sent no descriptor");
    if (i == 0) {
      first_ = std::move(report->descriptor);
      continue;
    }
    INGOT_ASSIGN_OR_RETURN(proxy_, EgressProxy::Start(std::move(report->descriptor), hosts_));
  }
  return absl::OkStatus();
}

absl::StatusOr<pid_t> BuildSandbox::Start(const BuildProgram& program, int out) {
  INGOT_ASSIGN_OR_RETURN(const std::string filter, MakeFilter({.makes_containers = true}));
  INGOT_RETURN_IF_ERROR(WritePasswd(program.scratch));
  INGOT_ASSIGN_OR_RETURN(const Fd launcher, LauncherProgram());
  INGOT_ASSIGN_OR_RETURN(const Fd order, MemoryFile("ingot-build", OrderOf(program, first_id_, filter)));
  INGOT_ASSIGN_OR_RETURN(SocketPair pair, MakeSocketPair());
  const Command command{.argv = {"ingot-launcher", kBuildMode}, .env = {}, .working_dir = "/", .stdin_text = ""};
  INGOT_ASSIGN_OR_RETURN(const pid_t pid, Spawn(command, {pair.theirs.get(), out, out},
                                                {.program_fd = launcher.get(), .dies_with_its_thread = true}));
  pair.theirs.Reset();
  std::vector<int> fds = {order.get()};
  for (const Fd& entrance : group_->entrances()) fds.push_back(entrance.get());
  absl::Status stands = SendDescriptors(pair.ours.get(), fds)
                            ? AwaitIsolation(pair.ours)
                            : ErrnoStatus(errno, "cannot send the build to the launcher");
  if (stands.ok()) return pid;
  kill(pid, SIGKILL);
  while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) continue;
  return stands;
}

}  // namespace ingot::sandbox
