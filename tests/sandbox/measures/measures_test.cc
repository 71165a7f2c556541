// A deletion test over the wall of sandboxes. Each measure (sandbox/measures.h) and each limit is left out once, and one line that a
// command prints (probe.py) or that this test sees from outside must differ from the line of the whole wall. A measure
// without such a line fails the test. Needs root; measures of walls for users are tried as nobody.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "sandbox/measures/trial.h"

namespace ingot::sandbox {
namespace {

struct Probe {
  Measure measure;
  const char* name;
  Setting setting;
  const char* line;
};

constexpr Probe kProbes[] = {
    {Measure::kLauncherMounts, "mount namespace of the launcher", Setting::kFull, "launcher's mounts"},
    {Measure::kLauncherUsers, "user namespace of the launcher", Setting::kUsers, "isolation"},
    {Measure::kNoPropagation, "no mount leaves the launcher", Setting::kFull, "mounts outside"},
    {Measure::kHiddenFolders, "hidden folders", Setting::kProcess, "secret folder"},
    {Measure::kHiddenFoldersReadOnly, "hidden folders: ro", Setting::kProcess, "secret folder ro"},
    {Measure::kHiddenFoldersNoSuid, "hidden folders: nosuid", Setting::kProcess, "secret folder nosuid"},
    {Measure::kHiddenFoldersNoDev, "hidden folders: nodev", Setting::kProcess, "secret folder nodev"},
    {Measure::kHiddenFoldersNoExec, "hidden folders: noexec", Setting::kProcess, "secret folder noexec"},
    {Measure::kHiddenFiles, "hidden files", Setting::kProcess, "secret file"},
    {Measure::kLauncherUntraceable, "launcher: untraceable", Setting::kPlain, "launcher's environment"},
    {Measure::kRootNoSuid, "root folder: nosuid", Setting::kFull, "/ nosuid"},
    {Measure::kRootReadOnly, "root folder: ro", Setting::kFull, "/ ro"},
    {Measure::kShownNoSuid, "shown paths: nosuid", Setting::kFull, "/usr nosuid"},
    {Measure::kShownReadOnly, "shown paths: ro", Setting::kFull, "/usr ro"},
    {Measure::kShownOwnersMapped, "shown paths: owners are nobody", Setting::kFull, "owner of /usr"},
    {Measure::kChannelsCovered, "shown paths: sockets and FIFOs covered", Setting::kUsers, "channel"},
    {Measure::kChannelCoversReadOnly, "covers of sockets: ro", Setting::kUsers, "channel ro"},
    {Measure::kOldRootDetached, "old root folder detached", Setting::kFull, "above the root"},
    {Measure::kWorkRootNoSuid, "work root: nosuid", Setting::kFull, "work nosuid"},
    {Measure::kWorkRootNoDev, "work root: nodev", Setting::kFull, "work nodev"},
    {Measure::kSourcesDetached, "sources of images detached", Setting::kFull, "sources"},
    {Measure::kUserNamespaceOfSandbox, "user namespace", Setting::kUsers, "namespace user"},
    {Measure::kPidNamespaceOfSandbox, "PID namespace", Setting::kFull, "namespace pid"},
    {Measure::kMountNamespaceOfSandbox, "mount namespace", Setting::kFull, "namespace mnt of the launcher"},
    {Measure::kNetworkNamespaceOfSandbox, "network namespace", Setting::kFull, "namespace net"},
    {Measure::kIpcNamespaceOfSandbox, "IPC namespace", Setting::kFull, "namespace ipc"},
    {Measure::kHostNameNamespaceOfSandbox, "UTS namespace", Setting::kFull, "namespace uts"},
    {Measure::kOwnProc, "own /proc", Setting::kFull, "owner in /proc"},
    {Measure::kProcNoSuid, "/proc: nosuid", Setting::kFull, "/proc nosuid"},
    {Measure::kProcNoDev, "/proc: nodev", Setting::kFull, "/proc nodev"},
    {Measure::kProcNoExec, "/proc: noexec", Setting::kFull, "/proc noexec"},
    {Measure::kOneSandboxShown, "other sandboxes hidden", Setting::kSharedUid, "sandboxes"},
    {Measure::kOneSandboxReadOnly, "cover of other sandboxes: ro", Setting::kSharedUid, "work root ro"},
    {Measure::kOneSandboxNoSuid, "cover of other sandboxes: nosuid", Setting::kSharedUid, "work root nosuid"},
    {Measure::kOneSandboxNoDev, "cover of other sandboxes: nodev", Setting::kSharedUid, "work root nodev"},
    {Measure::kOwnUidNamed, "name of the uid", Setting::kFull, "name"},
    {Measure::kOwnTmp, "own /tmp", Setting::kFull, "own /tmp"},
    {Measure::kOwnShm, "own /dev/shm", Setting::kFull, "write /dev/shm"},
    {Measure::kShmSize, "/dev/shm: size", Setting::kFull, "bytes of /dev/shm"},
    {Measure::kShmFiles, "/dev/shm: files", Setting::kFull, "files of /dev/shm"},
    {Measure::kShmNoSuid, "/dev/shm: nosuid", Setting::kFull, "/dev/shm nosuid"},
    {Measure::kShmNoDev, "/dev/shm: nodev", Setting::kFull, "/dev/shm nodev"},
    {Measure::kOwnTerminals, "own /dev/pts", Setting::kFull, "terminals"},
    {Measure::kTerminalsNoSuid, "/dev/pts: nosuid", Setting::kFull, "/dev/pts nosuid"},
    {Measure::kTerminalsNoExec, "/dev/pts: noexec", Setting::kFull, "/dev/pts noexec"},
    {Measure::kLayersNoSuid, "layers: nosuid", Setting::kLayered, "work nosuid"},
    {Measure::kLayersNoDev, "layers: nodev", Setting::kLayered, "work nodev"},
    {Measure::kEndsFirstWithoutMemory, "oom_score_adj", Setting::kFull, "oom"},
    {Measure::kFirstUntraceable, "first process: untraceable", Setting::kPlain, "environment of the first process"},
    {Measure::kAdoptsOrphans, "first process: adopts orphans", Setting::kPlain, "orphan's parent"},
    {Measure::kLeftIpcRemoved, "objects of IPC removed", Setting::kProcess, "left shared memory"},
    {Measure::kOwnSession, "own session", Setting::kFull, "leads a session"},
    {Measure::kBoundedCapabilities, "bounding set", Setting::kFull, "CapBnd"},
    {Measure::kNoNewPrivileges, "no new privileges", Setting::kProcess, "NoNewPrivs"},
    {Measure::kNoOtherGroups, "no other groups", Setting::kFull, "Groups"},
    {Measure::kOwnGid, "own gid", Setting::kFull, "Gid"},
    {Measure::kOwnUidTaken, "own uid", Setting::kProcess, "Uid"},
    {Measure::kNoCapabilities, "no capabilities", Setting::kClosedProgram, "refused"},
    {Measure::kEndsWithItsParent, "signal at the parent's death", Setting::kFull, "death signal"},
    {Measure::kNoCoreFiles, "RLIMIT_CORE", Setting::kFull, "limit CORE"},
    {Measure::kFilter, "system call filter", Setting::kFull, "Seccomp"},
    {Measure::kApartFromCompanions, "PIDs apart from companions", Setting::kCompanion, "signals others"},
    {Measure::kProcApartFromCompanions, "/proc apart from companions", Setting::kCompanion, "companion in /proc"},
    {Measure::kCompanionSharesNoMemory, "companions: own IPC namespace", Setting::kCompanion,
     "shared memory of the companion"},
    {Measure::kCompanionSharesNoShm, "companions: own /dev/shm", Setting::kCompanion, "file of the companion"},
    {Measure::kLandlockWriteFile, "Landlock: write", Setting::kLandlock, "write"},
    {Measure::kLandlockReadFile, "Landlock: read", Setting::kLandlock, "read"},
    {Measure::kLandlockReadFolder, "Landlock: list", Setting::kLandlock, "list"},
    {Measure::kLandlockRemoveFolder, "Landlock: remove folder", Setting::kLandlock, "remove folder"},
    {Measure::kLandlockRemoveFile, "Landlock: remove file", Setting::kLandlock, "remove file"},
    {Measure::kLandlockMakeCharacterDevice, "Landlock: make character device", Setting::kLandlock,
     "make character device"},
    {Measure::kLandlockMakeFolder, "Landlock: make folder", Setting::kLandlock, "make folder"},
    {Measure::kLandlockMakeFile, "Landlock: make file", Setting::kLandlock, "make file"},
    {Measure::kLandlockMakeSocket, "Landlock: make socket", Setting::kLandlock, "make socket"},
    {Measure::kLandlockMakePipe, "Landlock: make pipe", Setting::kLandlock, "make pipe"},
    {Measure::kLandlockMakeBlockDevice, "Landlock: make block device", Setting::kLandlock, "make block device"},
    {Measure::kLandlockMakeLink, "Landlock: make link", Setting::kLandlock, "make link"},
    {Measure::kLandlockRefer, "Landlock: move between folders", Setting::kLandlock, "move between folders"},
    {Measure::kLandlockTruncate, "Landlock: truncate", Setting::kLandlock, "truncate"},
    {Measure::kLandlockDevices, "Landlock: control devices", Setting::kLandlock, "control a device"},
    {Measure::kLandlockBind, "Landlock: bind", Setting::kLandlock, "bind"},
    {Measure::kLandlockConnect, "Landlock: connect", Setting::kLandlock, "connect"},
    {Measure::kLandlockAbstractSockets, "Landlock: abstract sockets", Setting::kLandlock, "abstract socket"},
    {Measure::kLandlockSignals, "Landlock: signals", Setting::kLandlock, "signal"},
};

constexpr std::pair<const char*, const char*> kLimits[] = {
    {"AS", "limit AS"},           {"NOFILE", "limit NOFILE"}, {"CPU", "limit CPU"},        {"FSIZE", "limit FSIZE"},
    {"processes", "limit NPROC"}, {"memory", "group memory"}, {"processes", "group pids"}, {"cpus", "group cpu"}};

class MeasuresTest : public testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "needs root";
  }

  // The lines of the whole wall.
  const Lines& Whole(Setting setting) {
    auto [at, is_new] = whole_.try_emplace(setting);
    if (is_new) {
      at->second = LookAt({.setting = setting});
      EXPECT_FALSE(at->second.contains("failed")) << at->second["failed"];
      EXPECT_FALSE(at->second.contains("probe")) << at->second["probe"];
      std::printf("setting %d: isolation level %s\n", static_cast<int>(setting), at->second["isolation"].c_str());
    }
    return at->second;
  }

  // Whether the line changes without a part of the wall.
  bool Changes(const TrialOptions& without, const std::string& line) {
    const Lines& whole = Whole(without.setting);
    if (!whole.contains(line)) {
      ADD_FAILURE() << "the probe prints no line '" << line << "'";
      return false;
    }
    Lines lines = LookAt(without);
    const std::string now =
        lines.contains(line) ? lines[line] : absl::StrCat("none: ", lines["failed"], lines["refused"]);
    std::printf("    %s: %s -> %s\n", line.c_str(), whole.at(line).c_str(), now.c_str());
    return now != whole.at(line);
  }

  std::map<Setting, Lines> whole_;
};

TEST_F(MeasuresTest, EachMeasureAloneHoldsWhatItsProbeSees) {
  std::vector<std::string> unheld;
  for (uint32_t number = 1; number < static_cast<uint32_t>(Measure::kCount); ++number) {
    const auto* const probe = std::find_if(std::begin(kProbes), std::end(kProbes), [number](const Probe& each) {
      return static_cast<uint32_t>(each.measure) == number;
    });
    if (probe == std::end(kProbes)) {
      unheld.push_back(absl::StrCat("measure ", number, " (it has no probe)"));
      continue;
    }
    std::printf("%s\n", probe->name);
    if (!Changes({.setting = probe->setting, .left_out = probe->measure}, probe->line)) unheld.push_back(probe->name);
  }
  std::printf("%u measures. Rules that no test holds: %s\n", static_cast<uint32_t>(Measure::kCount) - 1,
              unheld.empty() ? "none" : absl::StrJoin(unheld, ", ").c_str());
  EXPECT_TRUE(unheld.empty());
}

TEST_F(MeasuresTest, EachLimitReachesTheCommand) {
  if (Whole(Setting::kFull).at("isolation") != "full") GTEST_SKIP() << "needs control groups";
  std::vector<std::string> unheld;
  for (const auto& [limit, line] : kLimits) {
    if (!Changes({.setting = Setting::kFull, .unlimited = limit}, line)) unheld.push_back(line);
  }
  std::printf("%zu limits. Rules that no test holds: %s\n", std::size(kLimits),
              unheld.empty() ? "none" : absl::StrJoin(unheld, ", ").c_str());
  EXPECT_TRUE(unheld.empty());
}

}  // namespace
}  // namespace ingot::sandbox
