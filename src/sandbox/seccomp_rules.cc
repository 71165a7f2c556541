#include "sandbox/seccomp_rules.h"

#include <netinet/in.h>
#include <sched.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <string_view>

#include "absl/strings/str_cat.h"

namespace ingot::sandbox {
namespace {

using Kind = ArgumentTest::Kind;

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

// The calls in kDenied and kNamespaceFlags that a build may use.
constexpr const char* kOfContainers[] = {"mount",      "umount2",       "pivot_root",  "open_tree",
                                         "move_mount", "fsopen",        "fsconfig",    "fsmount",
                                         "fspick",     "mount_setattr", "sethostname", "setdomainname"};
constexpr uint64_t kNamespacesOfContainers = CLONE_NEWNS | CLONE_NEWUTS;

constexpr const char* kIpc[] = {"shmget",        "shmat",        "shmctl",         "shmdt",     "semget",
                                "semop",         "semtimedop",   "semctl",         "msgget",    "msgsnd",
                                "msgrcv",        "msgctl",       "mq_open",        "mq_unlink", "mq_notify",
                                "mq_getsetattr", "mq_timedsend", "mq_timedreceive"};

struct Flag {
  const char* name;
  uint64_t value;
};
constexpr uint64_t kNewTime = 0x80;  // CLONE_NEWTIME
constexpr Flag kNamespaceFlags[] = {{"user", CLONE_NEWUSER},     {"mount", CLONE_NEWNS}, {"PID", CLONE_NEWPID},
                                    {"network", CLONE_NEWNET},   {"IPC", CLONE_NEWIPC},  {"UTS", CLONE_NEWUTS},
                                    {"cgroup", CLONE_NEWCGROUP}, {"time", kNewTime}};
constexpr Flag kTerminalRequests[] = {{"TIOCSTI", 0x5412}, {"TIOCLINUX", 0x541c}};

constexpr uint64_t kTypeMask = 0xf;  // mask for a socket's type, without SOCK_CLOEXEC and SOCK_NONBLOCK
constexpr uint64_t kFamilies[] = {AF_INET, AF_INET6};
constexpr uint64_t kTcp = IPPROTO_TCP, kUdp = IPPROTO_UDP;
constexpr uint64_t kTcpUlp = 31;  // setsockopt option for another protocol on top of TCP or instead of it
constexpr uint64_t kSendFastOpen = MSG_FASTOPEN;  // connects with a call that Landlock does not check

ArgumentTest Equals(unsigned index, uint64_t value) { return {index, Kind::kEquals, value, 0}; }
ArgumentTest IsAbove(unsigned index, uint64_t value) { return {index, Kind::kIsAbove, value, 0}; }
ArgumentTest Has(unsigned index, uint64_t flag) { return {index, Kind::kMaskedEquals, flag, flag}; }

void AddDenied(std::vector<FilterRule>& rules, bool makes_containers) {
  for (const char* const name : kDenied) {
    const bool is_allowed = makes_containers && std::find(std::begin(kOfContainers), std::end(kOfContainers),
                                                          std::string_view(name)) != std::end(kOfContainers);
    if (!is_allowed) rules.push_back({name, name, EPERM, {}});
  }
}

void AddNamespaces(std::vector<FilterRule>& rules, bool makes_containers) {
  rules.push_back({"clone3", "clone3", ENOSYS, {}});
  for (const Flag& flag : kNamespaceFlags) {
    if (makes_containers && (flag.value & kNamespacesOfContainers) != 0) continue;
    rules.push_back({absl::StrCat("unshare: ", flag.name, " namespace"), "unshare", EPERM, {Has(0, flag.value)}});
    if (flag.value == kNewTime) continue;  // in clone, this is a bit of the signal
    rules.push_back({absl::StrCat("clone: ", flag.name, " namespace"), "clone", EPERM, {Has(0, flag.value)}});
  }
}

void AddFamilies(std::vector<FilterRule>& rules) {
  for (const char* const call : {"socket", "socketpair"}) {
    rules.push_back({absl::StrCat(call, ": family above ", AF_INET6), call, EAFNOSUPPORT, {IsAbove(0, AF_INET6)}});
    for (uint64_t family = 0; family < AF_INET6; ++family) {
      if (family == AF_UNIX || family == AF_INET) continue;
      rules.push_back({absl::StrCat(call, ": family ", family), call, EAFNOSUPPORT, {Equals(0, family)}});
    }
  }
}

// Protocol 0 is TCP for a stream and UDP for datagrams. Landlock and the machine's firewall may not recognize the
// addresses of other protocols, such as MPTCP.
void AddInternetSockets(std::vector<FilterRule>& rules, bool tcp_only) {
  const uint64_t last = tcp_only ? kTcp : kUdp;
  for (const uint64_t family : kFamilies) {
    const std::string name = absl::StrCat("socket: family ", family);
    for (uint64_t type = 0; type <= kTypeMask; ++type) {
      if (type == SOCK_STREAM || (type == SOCK_DGRAM && !tcp_only)) continue;
      rules.push_back({absl::StrCat(name, " type ", type),
                       "socket",
                       EPROTONOSUPPORT,
                       {Equals(0, family), {1, Kind::kMaskedEquals, type, kTypeMask}}});
    }
    for (uint64_t protocol = 1; protocol < last; ++protocol) {
      if (protocol == kTcp) continue;
      rules.push_back({absl::StrCat(name, " protocol ", protocol),
                       "socket",
                       EPROTONOSUPPORT,
                       {Equals(0, family), Equals(2, protocol)}});
    }
    rules.push_back({absl::StrCat(name, " protocol above ", last),
                     "socket",
                     EPROTONOSUPPORT,
                     {Equals(0, family), IsAbove(2, last)}});
  }
}

void AddTcpOnly(std::vector<FilterRule>& rules) {
  rules.push_back({"listen", "listen", EPERM, {}});
  rules.push_back({"sendto: MSG_FASTOPEN", "sendto", EOPNOTSUPP, {Has(3, kSendFastOpen)}});
  rules.push_back({"sendmsg: MSG_FASTOPEN", "sendmsg", EOPNOTSUPP, {Has(2, kSendFastOpen)}});
  rules.push_back({"sendmmsg: MSG_FASTOPEN", "sendmmsg", EOPNOTSUPP, {Has(3, kSendFastOpen)}});
  rules.push_back({"setsockopt: TCP_ULP",
                   "setsockopt",
                   ENOENT,
                   {{1, Kind::kMaskedEquals, kTcp, 0xffffffff}, {2, Kind::kMaskedEquals, kTcpUlp, 0xffffffff}}});
}

}  // namespace

std::vector<FilterRule> RulesOf(const FilterOptions& options) {
  std::vector<FilterRule> rules = {{"other architectures", "", ENOSYS, {}}};
  AddDenied(rules, options.makes_containers);
  AddNamespaces(rules, options.makes_containers);
  for (const Flag& request : kTerminalRequests) {
    rules.push_back(
        {absl::StrCat("ioctl: ", request.name), "ioctl", EPERM, {{1, Kind::kMaskedEquals, request.value, 0xffffffff}}});
  }
  AddFamilies(rules);
  AddInternetSockets(rules, options.tcp_only);
  if (options.tcp_only) AddTcpOnly(rules);
  if (options.denies_ipc) {
    for (const char* const name : kIpc) rules.push_back({name, name, ENOSYS, {}});
  }
  return rules;
}

}  // namespace ingot::sandbox
