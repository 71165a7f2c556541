// A deletion test over the system call filter. Each rule has a probe, a call that this rule alone denies: it fails with the
// rule's error while the rule is there, and not without it. A rule without a probe fails the test. The calls are harmless
// where nothing denies them, for root too: their arguments make no sense to the kernel.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "sandbox/seccomp_rules.h"

namespace ingot::sandbox {
namespace {

// No call of the kernel fails with it, so that an answer of the filter is told from the kernel's.
constexpr int kMark = 200;

struct Call {
  long number = -1;
  std::vector<long> arguments;
};

constexpr long kBadAddress = 1, kBadFd = -1, kNonsense = 9999;
const long kNoFile = reinterpret_cast<long>("/no-such-file-of-ingot");
const long kNoName = reinterpret_cast<long>("");

std::map<std::string, Call> SimpleProbes() {
  return {
      {"mount", {SYS_mount, {kBadAddress, kBadAddress, kBadAddress, 0, 0}}},
      {"umount2", {SYS_umount2, {kNoFile, 0}}},
      {"pivot_root", {SYS_pivot_root, {kNoFile, kNoFile}}},
      {"open_tree", {SYS_open_tree, {kBadFd, kNoName, AT_EMPTY_PATH}}},
      {"move_mount", {SYS_move_mount, {kBadFd, kNoName, kBadFd, kNoName, 0}}},
      {"fsopen", {SYS_fsopen, {kBadAddress, 0}}},
      {"fsconfig", {SYS_fsconfig, {kBadFd, kNonsense, 0, 0, 0}}},
      {"fsmount", {SYS_fsmount, {kBadFd, 0, 0}}},
      {"fspick", {SYS_fspick, {kBadFd, kNoName, 0}}},
      {"mount_setattr", {SYS_mount_setattr, {kBadFd, kNoName, 0, kBadAddress, 32}}},
      {"setns", {SYS_setns, {kBadFd, 0}}},
      {"keyctl", {SYS_keyctl, {kNonsense, 0, 0, 0, 0}}},
      {"add_key", {SYS_add_key, {kBadAddress, kBadAddress, 0, 0, 0}}},
      {"request_key", {SYS_request_key, {kBadAddress, kBadAddress, 0, 0}}},
      {"io_uring_setup", {SYS_io_uring_setup, {0, kBadAddress}}},
      {"io_uring_enter", {SYS_io_uring_enter, {kBadFd, 0, 0, 0, 0, 0}}},
      {"io_uring_register", {SYS_io_uring_register, {kBadFd, kNonsense, 0, 0}}},
      {"userfaultfd", {SYS_userfaultfd, {0x10000}}},
      {"bpf", {SYS_bpf, {kNonsense, 0, 0}}},
      {"perf_event_open", {SYS_perf_event_open, {kBadAddress, 0, -1, -1, 0}}},
      {"open_by_handle_at", {SYS_open_by_handle_at, {kBadFd, kBadAddress, 0}}},
      {"pidfd_getfd", {SYS_pidfd_getfd, {kBadFd, 0, 0}}},
      {"quotactl", {SYS_quotactl, {-1, kBadAddress, 0, 0}}},
      {"quotactl_fd", {443, {kBadFd, 0, 0, 0}}},
      {"init_module", {SYS_init_module, {kBadAddress, 0, kBadAddress}}},
      {"finit_module", {SYS_finit_module, {kBadFd, kBadAddress, 0}}},
      {"delete_module", {SYS_delete_module, {kBadAddress, O_NONBLOCK}}},
      {"kexec_load", {SYS_kexec_load, {0, kNonsense, kBadAddress, 0xdead}}},
      {"kexec_file_load", {SYS_kexec_file_load, {kBadFd, kBadFd, 0, 0, 0}}},
      {"reboot", {SYS_reboot, {0, 0, 0, 0}}},
      {"swapon", {SYS_swapon, {kNoFile, 0}}},
      {"swapoff", {SYS_swapoff, {kNoFile}}},
      {"acct", {SYS_acct, {kNoFile}}},
      {"settimeofday", {SYS_settimeofday, {kBadAddress, 0}}},
      {"clock_settime", {SYS_clock_settime, {kNonsense, kBadAddress}}},
      {"clock_adjtime", {SYS_clock_adjtime, {kNonsense, kBadAddress}}},
      {"adjtimex", {SYS_adjtimex, {kBadAddress}}},
      {"syslog", {SYS_syslog, {kNonsense, 0, 0}}},
      {"vhangup", {SYS_vhangup, {}}},  // of the child's terminal, and it has none
      {"fanotify_init", {SYS_fanotify_init, {-1, 0}}},
      {"sethostname", {SYS_sethostname, {kBadAddress, kNonsense}}},
      {"setdomainname", {SYS_setdomainname, {kBadAddress, kNonsense}}},
#ifdef __x86_64__
      {"iopl", {SYS_iopl, {kNonsense}}},
      {"ioperm", {SYS_ioperm, {1 << 30, 1, 1}}},
      {"lookup_dcookie", {SYS_lookup_dcookie, {0, 0, 0}}},
      {"nfsservctl", {180, {0, 0, 0}}},
      {"other architectures", {SYS_getpid | 0x40000000, {}}},  // a call of x32
#endif
      {"clone3", {SYS_clone3, {kBadAddress, 0}}},
      {"ioctl: TIOCSTI", {SYS_ioctl, {kBadFd, 0x5412, 0}}},
      {"ioctl: TIOCLINUX", {SYS_ioctl, {kBadFd, 0x541c, 0}}},
      {"listen", {SYS_listen, {kBadFd, 1}}},
      {"sendto: MSG_FASTOPEN", {SYS_sendto, {kBadFd, 0, 0, 0x20000000 | MSG_NOSIGNAL, 0, 0}}},
      {"sendmsg: MSG_FASTOPEN", {SYS_sendmsg, {kBadFd, 0, 0x20000000}}},
      {"sendmmsg: MSG_FASTOPEN", {SYS_sendmmsg, {kBadFd, 0, 0, 0x20000000}}},
      {"setsockopt: TCP_ULP", {SYS_setsockopt, {kBadFd, 6, 31, 0, 0}}},
      {"shmget", {SYS_shmget, {0, 0, 0}}},
      {"shmat", {SYS_shmat, {-1, 0, 0}}},
      {"shmctl", {SYS_shmctl, {-1, kNonsense, 0}}},
      {"shmdt", {SYS_shmdt, {kBadAddress}}},
      {"semget", {SYS_semget, {0, -1, 0}}},
      {"semop", {SYS_semop, {-1, kBadAddress, 1}}},
      {"semtimedop", {SYS_semtimedop, {-1, kBadAddress, 1, 0}}},
      {"semctl", {SYS_semctl, {-1, 0, kNonsense, 0}}},
      {"msgget", {SYS_msgget, {0x1a607, 0}}},  // of a key that nobody has
      {"msgsnd", {SYS_msgsnd, {-1, kBadAddress, 1, 0}}},
      {"msgrcv", {SYS_msgrcv, {-1, kBadAddress, 1, 0, 0}}},
      {"msgctl", {SYS_msgctl, {-1, kNonsense, 0}}},
      {"mq_open", {SYS_mq_open, {kBadAddress, 0, 0, 0}}},
      {"mq_unlink", {SYS_mq_unlink, {kBadAddress}}},
      {"mq_notify", {SYS_mq_notify, {kBadFd, 0}}},
      {"mq_getsetattr", {SYS_mq_getsetattr, {kBadFd, 0, 0}}},
      {"mq_timedsend", {SYS_mq_timedsend, {kBadFd, 0, 0, 0, 0}}},
      {"mq_timedreceive", {SYS_mq_timedreceive, {kBadFd, 0, 0, 0, 0}}},
  };
}

std::map<std::string, Call> Probes() {
  std::map<std::string, Call> probes = SimpleProbes();
  const std::pair<const char*, long> namespaces[] = {{"user", 0x10000000},    {"mount", 0x20000}, {"PID", 0x20000000},
                                                     {"network", 0x40000000}, {"IPC", 0x8000000}, {"UTS", 0x4000000},
                                                     {"cgroup", 0x2000000},   {"time", 0x80}};
  constexpr long kThread = 0x10000;  // CLONE_THREAD alone is an error, so that clone makes no process
  for (const auto& [name, flag] : namespaces) {
    probes[absl::StrCat("unshare: ", name, " namespace")] = {SYS_unshare, {flag}};
    probes[absl::StrCat("clone: ", name, " namespace")] = {SYS_clone, {flag | kThread, 0, 0, 0, 0}};
  }
  for (const auto& [name, call] : {std::pair("socket", SYS_socket), std::pair("socketpair", SYS_socketpair)}) {
    for (const long family : {0, 3, 4, 5, 6, 7, 8, 9}) {
      probes[absl::StrCat(name, ": family ", family)] = {call, {family, SOCK_DGRAM, 0, kBadAddress}};
    }
    probes[absl::StrCat(name, ": family above 10")] = {call, {16 /* AF_NETLINK */, SOCK_RAW, 0, kBadAddress}};
  }
  for (const long family : {2, 10}) {
    const std::string name = absl::StrCat("socket: family ", family);
    for (long type = 0; type < 16; ++type) {
      probes[absl::StrCat(name, " type ", type)] = {SYS_socket, {family, type | SOCK_CLOEXEC, 0}};
    }
    for (long protocol = 1; protocol < 17; ++protocol) {
      probes[absl::StrCat(name, " protocol ", protocol)] = {SYS_socket, {family, SOCK_STREAM, protocol}};
    }
    probes[absl::StrCat(name, " protocol above 6")] = {SYS_socket, {family, SOCK_STREAM, 262 /* IPPROTO_MPTCP */}};
    probes[absl::StrCat(name, " protocol above 17")] = {SYS_socket, {family, SOCK_STREAM, 262}};
  }
  return probes;
}

// Makes the call under the program in a process that ends with it. Returns its errno, 0 = it succeeded.
int ErrorUnder(const std::string& program, const Call& call) {
  std::vector<long> arguments = call.arguments;
  arguments.resize(6);
  sock_fprog filter{static_cast<unsigned short>(program.size() / sizeof(sock_filter)),
                    reinterpret_cast<sock_filter*>(const_cast<char*>(program.data()))};
  const pid_t child = fork();
  if (child == 0) {
    setsid();
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter) != 0) _exit(255);
    const long* const a = arguments.data();
    errno = 0;
    const long got = syscall(call.number, a[0], a[1], a[2], a[3], a[4], a[5]);
    _exit(got >= 0 ? 0 : errno);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) != 255) << "the filter could not be taken: " << status;
  return WEXITSTATUS(status);
}

std::vector<FilterRule> Marked(std::vector<FilterRule> rules) {
  for (FilterRule& rule : rules) rule.error = kMark;
  return rules;
}

constexpr FilterOptions kScopes[] = {{.tcp_only = false, .denies_ipc = false}, {.tcp_only = true, .denies_ipc = true}};

// Whether the rule denies its probe, with its own error, and nothing else does.
bool IsHeld(const std::vector<FilterRule>& rules, size_t index, const Call& probe, const std::string& all) {
  const FilterRule& rule = rules[index];
  std::vector<FilterRule> others = Marked(rules);
  others.erase(others.begin() + static_cast<std::ptrdiff_t>(index));
  const int with = ErrorUnder(all, probe), without = ErrorUnder(*MakeProgram(others), probe);
  EXPECT_EQ(with, rule.error) << rule.name;
  EXPECT_NE(without, kMark) << rule.name << ": another rule denies it too";
  return with == rule.error && without != kMark;
}

TEST(SeccompRulesTest, EachRuleAloneDeniesACall) {
  const std::map<std::string, Call> probes = Probes();
  std::vector<std::string> unheld;
  size_t count = 0;
  for (const FilterOptions& scope : kScopes) {
    const std::vector<FilterRule> rules = RulesOf(scope);
    const std::string all = *MakeFilter(scope);
    count += rules.size();
    for (size_t i = 0; i < rules.size(); ++i) {
      const auto probe = probes.find(rules[i].name);
      if (probe == probes.end() || !IsHeld(rules, i, probe->second, all)) unheld.push_back(rules[i].name);
    }
  }
  std::printf("%zu rules. Rules that no test holds: %s\n", count,
              unheld.empty() ? "none" : absl::StrJoin(unheld, ", ").c_str());
  EXPECT_TRUE(unheld.empty());
}

TEST(SeccompRulesTest, NamesOfRulesAreUnique) {
  for (const FilterOptions& scope : kScopes) {
    std::vector<std::string> names;
    for (const FilterRule& rule : RulesOf(scope)) names.push_back(rule.name);
    std::sort(names.begin(), names.end());
    EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end());
  }
}

TEST(SeccompRulesTest, SocketsThatAgentsNeedStay) {
  const std::vector<Call> needed = {{SYS_socket, {AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0}},
                                    {SYS_socket, {AF_INET, SOCK_STREAM, 6}},
                                    {SYS_socket, {AF_INET6, SOCK_STREAM, 6}},
                                    {SYS_socket, {AF_UNIX, SOCK_STREAM, 0}},
                                    {SYS_socket, {AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0}},
                                    {SYS_socket, {AF_UNIX, SOCK_SEQPACKET, 1}}};
  const std::vector<Call> datagrams = {{SYS_socket, {AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0}},
                                       {SYS_socket, {AF_INET, SOCK_DGRAM, 17}},
                                       {SYS_socket, {AF_INET6, SOCK_DGRAM, 17}}};
  for (const FilterOptions& scope : kScopes) {
    const std::string program = *MakeFilter(scope);
    for (const Call& call : needed) {
      const int error = ErrorUnder(program, call);
      EXPECT_TRUE(error == 0 || error == EAFNOSUPPORT) << error;  // a machine without IPv6
    }
    for (const Call& call : datagrams) {
      const int error = ErrorUnder(program, call);
      EXPECT_EQ(error == EPROTONOSUPPORT, scope.tcp_only) << error;
    }
  }
}

// The kernel takes the low half of the register, and a filter sees all of it.
TEST(SeccompRulesTest, TheUpperHalfOfAnArgumentHidesNothing) {
  for (const FilterOptions& scope : kScopes) {
    const std::string program = *MakeFilter(scope);
    constexpr long kUpper = 1L << 32;
    EXPECT_NE(ErrorUnder(program, {SYS_socket, {16 | kUpper, SOCK_RAW, 0}}), 0);
    EXPECT_NE(ErrorUnder(program, {SYS_socket, {AF_INET, SOCK_STREAM, 262 | kUpper}}), 0);
    EXPECT_EQ(ErrorUnder(program, {SYS_ioctl, {kBadFd, 0x5412 | kUpper, 0}}), EPERM);
    EXPECT_EQ(ErrorUnder(program, {SYS_unshare, {0x20000 | kUpper}}), EPERM);
  }
}

TEST(SeccompRulesTest, AProgramFitsTheLaunchersMessage) {
  for (const FilterOptions& scope : kScopes) EXPECT_LE(MakeFilter(scope)->size(), 32768u);
}

}  // namespace
}  // namespace ingot::sandbox
