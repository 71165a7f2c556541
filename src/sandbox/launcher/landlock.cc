#include "sandbox/launcher/landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sandbox/launcher/left_out.h"

namespace ingot::sandbox::launcher {
namespace {

// From kernels newer than Debian 12's headers.
struct Ruleset {
  uint64_t files;
  uint64_t net;
  uint64_t scoped;
};
struct PortRule {
  uint64_t access;
  uint64_t port;
};
constexpr uint64_t kBindTcp = 1, kConnectTcp = 2;            // ABI 4
constexpr uint64_t kAbstractSockets = 1, kSignals = 2;       // ABI 6
constexpr int kNetPort = 2;                                  // LANDLOCK_RULE_NET_PORT
constexpr uint64_t kTruncate = 1 << 14, kDevices = 1 << 15;  // ABI 3, 5

constexpr uint64_t kRead = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR;
constexpr uint64_t kReadFile = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE | kTruncate | kDevices |
                               LANDLOCK_ACCESS_FS_EXECUTE;  // rights that a rule for a file may contain
constexpr uint64_t kExecute = kRead | LANDLOCK_ACCESS_FS_EXECUTE;
constexpr uint64_t kFirst = (1 << 13) - 1, kRefer = 1 << 13;  // ABI 1, 2

// In the order of the rights' bits, starting with the second.
constexpr Measure kRights[] = {
    Measure::kLandlockWriteFile,    Measure::kLandlockReadFile,        Measure::kLandlockReadFolder,
    Measure::kLandlockRemoveFolder, Measure::kLandlockRemoveFile,      Measure::kLandlockMakeCharacterDevice,
    Measure::kLandlockMakeFolder,   Measure::kLandlockMakeFile,        Measure::kLandlockMakeSocket,
    Measure::kLandlockMakePipe,     Measure::kLandlockMakeBlockDevice, Measure::kLandlockMakeLink,
    Measure::kLandlockRefer,        Measure::kLandlockTruncate,        Measure::kLandlockDevices};

uint64_t LeftOutRights() {
  uint64_t rights = 0;
  for (size_t i = 0; i < sizeof(kRights) / sizeof(kRights[0]); ++i) {
    if (!Raises(kRights[i])) rights |= uint64_t{2} << i;
  }
  return rights;
}

uint64_t Handled(int version) {
  const uint64_t all =
      kFirst | (version >= 2 ? kRefer : 0) | (version >= 3 ? kTruncate : 0) | (version >= 5 ? kDevices : 0);
  return all & ~LeftOutRights();
}

// A missing path needs no rule.
int Allow(int ruleset, const char* path, uint64_t rights) {
  rights &= ~LeftOutRights();
  const int fd = open(path, O_PATH | O_CLOEXEC);
  if (fd < 0) return 0;
  struct stat info;
  if (fstat(fd, &info) == 0 && !S_ISDIR(info.st_mode)) rights &= kReadFile;
  landlock_path_beneath_attr rule{};
  rule.allowed_access = rights;
  rule.parent_fd = fd;
  const int done = static_cast<int>(syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0));
  const int error = done == 0 ? 0 : errno;
  close(fd);
  return error;
}

constexpr const char* kDeviceFiles[] = {"/dev/null",    "/dev/zero", "/dev/full", "/dev/random",
                                        "/dev/urandom", "/dev/tty",  "/dev/ptmx", "/dev/pts"};

int AddRules(int ruleset, const LandlockPlan& plan, uint64_t all) {
  int error = 0;
  for (uint32_t i = 0; i < plan.visible_count && error == 0; ++i) error = Allow(ruleset, plan.visible[i], kExecute);
  // This does not give access to other processes' files in /proc, because Landlock prevents tracing processes outside.
  if (error == 0) error = Allow(ruleset, "/proc", kRead);
  for (const char* const device : kDeviceFiles) {
    if (error == 0) error = Allow(ruleset, device, (kRead | LANDLOCK_ACCESS_FS_WRITE_FILE | kDevices) & all);
  }
  if (error == 0 && plan.sandbox[0] != 0) error = Allow(ruleset, plan.sandbox, all);
  return error;
}

}  // namespace

int LandlockVersion() {
  const long version = syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
  return version > 0 ? static_cast<int>(version) : 0;
}

int RestrictToPlan(const LandlockPlan& plan) {
  const int version = LandlockVersion();
  Ruleset wanted{};
  wanted.files = Handled(version);
  if (version >= 4) {
    wanted.net = FlagOf(Measure::kLandlockBind, kBindTcp) | FlagOf(Measure::kLandlockConnect, kConnectTcp);
  }
  if (version >= 6) {
    wanted.scoped =
        FlagOf(Measure::kLandlockAbstractSockets, kAbstractSockets) | FlagOf(Measure::kLandlockSignals, kSignals);
  }
  const size_t size = version >= 6 ? sizeof(Ruleset) : version >= 4 ? 2 * sizeof(uint64_t) : sizeof(uint64_t);
  const int ruleset = static_cast<int>(syscall(SYS_landlock_create_ruleset, &wanted, size, 0));
  if (ruleset < 0) return errno;
  int error = AddRules(ruleset, plan, wanted.files);
  if (error == 0 && plan.port != 0 && (wanted.net & kConnectTcp) != 0) {
    PortRule rule{kConnectTcp, plan.port};
    if (syscall(SYS_landlock_add_rule, ruleset, kNetPort, &rule, 0) != 0) error = errno;
  }
  if (error == 0 && syscall(SYS_landlock_restrict_self, ruleset, 0) != 0) error = errno;
  close(ruleset);
  return error;
}

}  // namespace ingot::sandbox::launcher
