#include "sandbox/seccomp_filter.h"

#include <sched.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <memory>
#include <string_view>

#include "sandbox/spawn.h"

namespace ingot::sandbox {
namespace {

constexpr const char* kDenied[] = {"mount",
                                   "umount2",
                                   "pivot_root",
                                   "open_tree",
                                   "move_mount",
                                   "fsopen",
                                   "fsconfig",
                                   "fsmount",
                                   "fspick",
                                   "mount_setattr",
                                   "setns",
                                   "keyctl",
                                   "add_key",
                                   "request_key",
                                   "io_uring_setup",
                                   "io_uring_enter",
                                   "io_uring_register",
                                   "userfaultfd",
                                   "bpf",
                                   "perf_event_open",
                                   "open_by_handle_at",
                                   "pidfd_getfd",
                                   "quotactl",
                                   "quotactl_fd",
                                   "init_module",
                                   "finit_module",
                                   "delete_module",
                                   "kexec_load",
                                   "kexec_file_load",
                                   "reboot",
                                   "swapon",
                                   "swapoff",
                                   "acct",
                                   "settimeofday",
                                   "clock_settime",
                                   "clock_adjtime",
                                   "adjtimex",
                                   "iopl",
                                   "ioperm",
                                   "syslog",
                                   "vhangup",
                                   "fanotify_init",
                                   "lookup_dcookie",
                                   "nfsservctl",
                                   "sethostname",
                                   "setdomainname"};

// Of kDenied and kNamespaceFlags, what a build may do.
constexpr const char* kOfContainers[] = {"mount",      "umount2",       "pivot_root",  "open_tree",
                                         "move_mount", "fsopen",        "fsconfig",    "fsmount",
                                         "fspick",     "mount_setattr", "sethostname", "setdomainname"};
constexpr uint64_t kNamespacesOfContainers = CLONE_NEWNS | CLONE_NEWUTS;

constexpr uint64_t kNamespaceFlags[] = {CLONE_NEWUSER, CLONE_NEWNS,  CLONE_NEWPID,    CLONE_NEWNET,
                                        CLONE_NEWIPC,  CLONE_NEWUTS, CLONE_NEWCGROUP, 0x80 /* CLONE_NEWTIME */};
constexpr uint64_t kTypeMask = 0xf;  // of a socket's type, beside SOCK_CLOEXEC and SOCK_NONBLOCK

class Rules {
 public:
  explicit Rules(scmp_filter_ctx context) : context_(context) {}

  template <typename... Conditions>
  void Deny(const char* name, int error, Conditions... conditions) {
    const int call = seccomp_syscall_resolve_name(name);
    if (call == __NR_SCMP_ERROR) return;  // newer than the library, or of another architecture
    const int added = seccomp_rule_add(context_, SCMP_ACT_ERRNO(static_cast<uint32_t>(error)), call,
                                       sizeof...(conditions), conditions...);
    if (added != 0 && failure_ == 0) failure_ = -added;
  }
  int failure() const { return failure_; }

 private:
  scmp_filter_ctx context_;
  int failure_ = 0;
};

void AddRules(Rules& rules, const FilterOptions& options) {
  const auto is_of_containers = [&options](std::string_view name) {
    return options.makes_containers &&
           std::find(std::begin(kOfContainers), std::end(kOfContainers), name) != std::end(kOfContainers);
  };
  for (const char* const name : kDenied) {
    if (!is_of_containers(name)) rules.Deny(name, EPERM);
  }
  rules.Deny("clone3", ENOSYS);
  for (const uint64_t flag : kNamespaceFlags) {
    if (options.makes_containers && (flag & kNamespacesOfContainers) != 0) continue;
    rules.Deny("unshare", EPERM, SCMP_A0(SCMP_CMP_MASKED_EQ, flag, flag));
    if (flag != 0x80)
      rules.Deny("clone", EPERM, SCMP_A0(SCMP_CMP_MASKED_EQ, flag, flag));  // there it is a signal's bit
  }
  for (const unsigned long request : {0x5412ul /* TIOCSTI */, 0x541cul /* TIOCLINUX */}) {
    rules.Deny("ioctl", EPERM, SCMP_A1(SCMP_CMP_MASKED_EQ, 0xffffffff, request));
  }
  for (const char* const call : {"socket", "socketpair"}) {
    rules.Deny(call, EAFNOSUPPORT, SCMP_A0(SCMP_CMP_GT, AF_INET6));
    for (uint64_t family = 0; family < AF_INET6; ++family) {
      if (family != AF_UNIX && family != AF_INET) rules.Deny(call, EAFNOSUPPORT, SCMP_A0(SCMP_CMP_EQ, family));
    }
  }
  for (const int family : {AF_INET, AF_INET6}) {
    for (uint64_t type = 0; type <= kTypeMask; ++type) {
      const bool is_raw = type == SOCK_RAW || type == SOCK_PACKET;
      if (type == SOCK_STREAM || (!options.tcp_only && !is_raw)) continue;
      rules.Deny("socket", EPROTONOSUPPORT, SCMP_A0(SCMP_CMP_EQ, static_cast<uint64_t>(family)),
                 SCMP_A1(SCMP_CMP_MASKED_EQ, kTypeMask, type));
    }
  }
}

}  // namespace

absl::StatusOr<std::string> MakeFilter(const FilterOptions& options) {
  const std::unique_ptr<void, void (*)(scmp_filter_ctx)> context(seccomp_init(SCMP_ACT_ALLOW), seccomp_release);
  if (context == nullptr) return absl::ResourceExhaustedError("no memory for a seccomp program");
  seccomp_attr_set(context.get(), SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ERRNO(ENOSYS));
  seccomp_attr_set(context.get(), SCMP_FLTATR_CTL_OPTIMIZE, 2);  // a binary tree: a call passes few instructions
  Rules rules(context.get());
  AddRules(rules, options);
  if (rules.failure() != 0) return ErrnoStatus(rules.failure(), "cannot make the seccomp program of rooms");
  const Fd file(memfd_create("ingot-filter", MFD_CLOEXEC));
  if (!file.valid()) return ErrnoStatus(errno, "cannot make a file in memory");
  if (const int error = seccomp_export_bpf(context.get(), file.get()); error != 0) {
    return ErrnoStatus(-error, "cannot write the seccomp program of rooms");
  }
  std::string program(static_cast<size_t>(lseek(file.get(), 0, SEEK_END)), '\0');
  if (pread(file.get(), program.data(), program.size(), 0) != static_cast<ssize_t>(program.size())) {
    return ErrnoStatus(errno, "cannot read the seccomp program of rooms");
  }
  return program;
}

}  // namespace ingot::sandbox
