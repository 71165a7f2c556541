// Control groups that make commands stand still: over a tree of plain files, and with the kernel's own where it has them.
#include "sandbox/groups/freezer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <thread>

#include "sandbox/marked_processes.h"
#include "sandbox/sandbox_fault.h"
#include "sandbox/test_sandbox.h"

namespace ingot::sandbox {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::AllOf;
using testing::HasSubstr;

class FreezerTest : public testing::Test {
 protected:
  void Put(const std::string& path, const std::string& text) const {
    fs::create_directories(fs::path(folder_.path() + path).parent_path());
    std::ofstream(folder_.path() + path) << text;
  }
  static std::string Read(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }
  // A tree whose new folders have these files.
  GroupTree Tree(const std::map<std::string, std::string>& files) const {
    return {.root = folder_.path(), .fill = [files](const std::string& folder) {
              for (const auto& [name, text] : files) std::ofstream(folder + "/" + name) << text;
            }};
  }
  void Mount2() const {
    Put("/proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
    Put("/proc/self/cgroup", "0::/\n");
    fs::create_directories(folder_.path() + "/sys/fs/cgroup");
  }

  const TestFolder folder_;
};

TEST_F(FreezerTest, AProcessThatDoesNotStandStillLetsTheOthersRunOn) {
  Mount2();
  const auto freezers = Freezers::Make(
      0, 0, Tree({{"cgroup.procs", ""}, {"cgroup.freeze", "0"}, {"cgroup.events", "populated 1\nfrozen 0\n"}}));
  ASSERT_TRUE(freezers.ok()) << freezers.status();
  EXPECT_EQ((*freezers)->version(), 2);
  const auto freezer = (*freezers)->NewFreezer(nullptr);
  ASSERT_TRUE(freezer.ok()) << freezer.status();
  const absl::Status rejected = (*freezer)->Freeze(milliseconds(5)).status();
  EXPECT_TRUE(absl::IsUnavailable(rejected)) << rejected;
  EXPECT_THAT(std::string(rejected.message()), HasSubstr("cgroup.freeze"));
  char state = 0;
  ASSERT_EQ(pread((*freezer)->state(), &state, 1, 0), 1);
  EXPECT_EQ(state, '0');
}

// As the kernel answers while processes begin in the group.
TEST_F(FreezerTest, AGroupOfVersion1ThatStaysFreezingIsAskedAgain) {
  Put("/proc/self/mountinfo", "31 23 0:27 / /sys/fs/cgroup/freezer rw - cgroup cgroup rw,freezer\n");
  Put("/proc/self/cgroup", "5:freezer:/\n");
  fs::create_directories(folder_.path() + "/sys/fs/cgroup/freezer");
  const std::string none = "THAWED-";  // no state, whatever is written over it, before the kernel's answer
  const auto freezers = Freezers::Make(0, 1, Tree({{"cgroup.procs", ""}, {"freezer.state", none}}));
  ASSERT_TRUE(freezers.ok()) << freezers.status();
  const auto freezer = (*freezers)->NewFreezer(nullptr);
  ASSERT_TRUE(freezer.ok()) << freezer.status();
  const std::string state = absl::StrCat("/proc/self/fd/", (*freezer)->state());
  std::atomic<bool> ended{false};
  std::thread kernel([&] {
    const auto answer = [&](const std::string& asked, const std::string& text) {
      while (!ended && Read(state) != asked) std::this_thread::sleep_for(milliseconds(1));
      if (!ended) std::ofstream(state) << text;
    };
    answer("FROZEN-", "FREEZING");
    answer("FROZENNG", "FROZEN");
  });
  const auto still = (*freezer)->Freeze(seconds(5));
  ended = true;
  kernel.join();
  EXPECT_TRUE(still.ok()) << still.status();
}

TEST_F(FreezerTest, AKernelThatCannotFreezeIsNamed) {
  Mount2();
  const absl::Status rejected = Freezers::Make(0, 0, Tree({{"cgroup.procs", ""}})).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(rejected)) << rejected;
  EXPECT_THAT(std::string(rejected.message()), AllOf(HasSubstr("version 2: cannot open"), HasSubstr("/cgroup.freeze"),
                                                     HasSubstr("version 1: the controller freezer is not mounted")));
}

// Its owner was killed while a snapshot was taken: its sandbox sees that, and ends, once it runs.
TEST_F(FreezerTest, ASandboxThatAKilledProcessLeftFrozenRunsOn) {
  Mount2();
  const std::string sandbox = folder_.path() + "/sys/fs/cgroup/ingot-2147483646-0/5";
  Put("/sys/fs/cgroup/ingot-2147483646-0/5/cgroup.freeze", "1");
  ASSERT_TRUE(MakeSandboxesGroup(Tree({}), folder_.path() + "/sys/fs/cgroup").ok());
  EXPECT_EQ(Read(sandbox + "/cgroup.freeze"), "0");
}

// Sandboxes whose commands count up in a file, in each version that this machine has.
class FrozenSandboxTest : public FreezerTest, public testing::WithParamInterface<int> {
 protected:
  // Null: this machine has no freezer of this version.
  std::unique_ptr<LocalSubstrate> Make(const std::string& isolation = "process") const {
    SubstrateOptions options;
    options.work_root = folder_.path() + "/work";
    options.isolation = isolation;
    auto substrate = LocalSubstrate::Make(options, GetParam() == 1 ? kFreezer2Rejected : kFreezer1Rejected);
    EXPECT_TRUE(substrate.ok()) << substrate.status();
    return substrate.ok() && (*substrate)->probe_result().freezer == GetParam() ? *std::move(substrate) : nullptr;
  }
  static Command Shell(const std::string& script, const Sandbox& sandbox) {
    return {.argv = {"/bin/sh", "-c", script},
            .env = {{"PATH", "/usr/bin:/bin"}},
            .working_dir = sandbox.work(),
            .stdin_text = ""};
  }
  // The folder of the group that freezes a command, in this machine's tree.
  static std::string GroupOf(pid_t pid) {
    const std::string start = GetParam() == 1 ? ":freezer:" : "0::";
    std::ifstream groups(absl::StrCat("/proc/", pid, "/cgroup"));
    for (std::string line; std::getline(groups, line);) {
      const size_t at = line.find(start);
      if (at == std::string::npos) continue;
      const fs::path path(line.substr(at + start.size()));
      const std::string own = OwnGroup({}, GetParam() == 1 ? "freezer" : "").value();
      return absl::StrCat(own, "/", path.parent_path().filename().string(), "/", path.filename().string());
    }
    return "";
  }
  static absl::Status FreezeGroup(const std::string& group) {
    return GetParam() == 1 ? WriteGroupFile(group + "/freezer.state", "FROZEN")
                           : WriteGroupFile(group + "/cgroup.freeze", "1");
  }
  static void Await(Sandbox& sandbox, const std::string& file) {
    while (!sandbox.ReadFile(file, 100).ok()) std::this_thread::sleep_for(milliseconds(5));
  }
};

// Neither by a signal of its own, nor by a timer.
TEST_P(FrozenSandboxTest, ACommandIsCopiedAsItStandsAndRunsOn) {
  for (const char* const isolation : {"process", "auto"}) {
    const auto substrate = Make(isolation);
    if (substrate == nullptr) GTEST_SKIP() << "not granted";
    auto sandbox = substrate->Prepare().value();
    Limits limits;
    limits.wall_time = seconds(60);
    absl::StatusOr<Outcome> outcome;
    // Both files always have the same number, but between the two renames.
    std::thread runner([&] {
      outcome =
          sandbox->Run(Shell("i=0; while [ ! -e go ]; do i=$((i+1)); echo $i > n; mv n a; echo $i > n; mv n b; done; "
                             "echo done",
                             *sandbox),
                       limits, nullptr);
    });
    Await(*sandbox, "b");
    for (int i = 0; i < 5; ++i) {
      auto snapshot = sandbox->TakeSnapshot();
      ASSERT_TRUE(snapshot.ok()) << snapshot.status();
      SandboxOptions fork;
      fork.from = *snapshot;
      auto leaf = substrate->Prepare(fork);
      ASSERT_TRUE(leaf.ok()) << leaf.status();
      const int a = std::atoi((*leaf)->ReadFile("a", 100).value().c_str());
      const int b = std::atoi((*leaf)->ReadFile("b", 100).value().c_str());
      EXPECT_TRUE(a == b || a == b + 1) << a << " " << b << " " << isolation;
    }
    ASSERT_TRUE(sandbox->WriteFile("go", "").ok());
    runner.join();
    ASSERT_TRUE(outcome.ok()) << outcome.status();
    EXPECT_EQ(outcome->out, "done\n");
  }
}

// A companion runs beside no command at first.
TEST_P(FrozenSandboxTest, ACompanionStandsStillToo) {
  const auto substrate = Make("auto");
  if (substrate == nullptr) GTEST_SKIP() << "not granted";
  SandboxOptions wish;
  wish.takes_snapshots = true;
  auto sandbox = substrate->Prepare(wish).value();
  const auto companion = sandbox->StartCompanion(
      Shell("i=0; while :; do i=$((i+1)); echo $i > n; mv n a; echo $i > n; mv n b; done", *sandbox), Limits{});
  ASSERT_TRUE(companion.ok()) << companion.status();
  Await(*sandbox, "b");
  const auto snapshot = sandbox->TakeSnapshot();
  ASSERT_TRUE(snapshot.ok()) << snapshot.status();
  SandboxOptions fork;
  fork.from = *snapshot;
  auto leaf = substrate->Prepare(fork);
  ASSERT_TRUE(leaf.ok()) << leaf.status();
  const int a = std::atoi((*leaf)->ReadFile("a", 100).value().c_str());
  const int b = std::atoi((*leaf)->ReadFile("b", 100).value().c_str());
  EXPECT_TRUE(a == b || a == b + 1) << a << " " << b;
  for (int now = b; now <= b; now = std::atoi(sandbox->ReadFile("b", 100).value_or("").c_str()))
    continue;  // it runs on
  EXPECT_TRUE(sandbox->Run(Shell("true", *sandbox), Limits{}, nullptr)->ok());
  EXPECT_TRUE(sandbox->TakeSnapshot().ok()) << "nothing runs any more";
}

// A snapshot of a large folder may take minutes: a command that is to be killed meanwhile ends at once all the same.
TEST_P(FrozenSandboxTest, AFrozenCommandCanBeKilledAndAFrozenSandboxCanEnd) {
  const auto substrate = Make();
  if (substrate == nullptr) GTEST_SKIP() << "not granted";
  const MarkedProcesses marked;
  std::unique_ptr<Sandbox> sandbox = substrate->Prepare().value();
  Cancellation cancel;
  absl::StatusOr<Outcome> outcome;
  Limits limits;
  limits.wall_time = seconds(60);
  std::thread runner([&] { outcome = sandbox->Run(Shell("exec sleep " + marked.sleep(), *sandbox), limits, &cancel); });
  ASSERT_TRUE(marked.Await(1));
  const std::string group = GroupOf(marked.Any());
  ASSERT_TRUE(FreezeGroup(group).ok()) << group;
  const auto start = std::chrono::steady_clock::now();
  cancel.Cancel();
  runner.join();
  EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(4)) << "its end was seen, not given up on";
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(outcome->ending, Ending::kCancelled);
  EXPECT_EQ(marked.Count(), 0);
  ASSERT_TRUE(FreezeGroup(group).ok());
  sandbox.reset();
  EXPECT_FALSE(fs::exists(group));
}

// What is not there is the machine's fault, and no agent fails for it.
TEST_P(FrozenSandboxTest, AFreezerThatIsGoneIsNoFaultOfTheSandbox) {
  const auto substrate = Make();
  if (substrate == nullptr) GTEST_SKIP() << "not granted";
  auto sandbox = substrate->Prepare().value();
  const MarkedProcesses marked;
  Cancellation cancel;
  Limits limits;
  limits.wall_time = seconds(60);
  std::thread runner([&] { (void)sandbox->Run(Shell("exec sleep " + marked.sleep(), *sandbox), limits, &cancel); });
  ASSERT_TRUE(marked.Await(1));
  const std::string group = GroupOf(marked.Any());
  const std::string around = fs::path(group).parent_path().parent_path().string();
  EXPECT_TRUE(WriteGroupFile(around + "/cgroup.procs", absl::StrCat(marked.Any())).ok()) << around;
  for (int i = 0; i < 1000 && rmdir(group.c_str()) != 0; ++i) std::this_thread::sleep_for(milliseconds(1));
  EXPECT_FALSE(fs::exists(group));
  const absl::Status failed = sandbox->TakeSnapshot().status();
  EXPECT_FALSE(failed.ok());
  EXPECT_FALSE(IsSandboxFault(failed)) << failed;
  cancel.Cancel();
  runner.join();
}

// Nobody is there to let it run on.
TEST_P(FrozenSandboxTest, AFrozenCommandEndsWithItsOwner) {
  const MarkedProcesses marked;
  std::fflush(stdout);
  const pid_t owner = fork();
  if (owner == 0) {
    const auto substrate = Make();
    if (substrate == nullptr) _exit(3);
    auto sandbox = substrate->Prepare().value();
    Limits limits;
    limits.wall_time = seconds(60);
    std::thread runner([&] { (void)sandbox->Run(Shell("exec sleep " + marked.sleep(), *sandbox), limits, nullptr); });
    if (!marked.Await(1) || !FreezeGroup(GroupOf(marked.Any())).ok()) _exit(4);
    kill(getpid(), SIGKILL);  // as in the middle of a snapshot
  }
  int status = 0;
  waitpid(owner, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 3) GTEST_SKIP() << "not granted";
  ASSERT_TRUE(WIFSIGNALED(status)) << status;
  EXPECT_TRUE(marked.AwaitNone());
}

TEST(FreezerlessTest, ASnapshotOfARunningCommandIsRejectedByNameAndOneBetweenCommandsIsTaken) {
  const TestFolder folder;
  SubstrateOptions options;
  options.work_root = folder.path() + "/work";
  for (const char* const isolation : {"process", "auto"}) {
    options.isolation = isolation;
    const auto substrate = LocalSubstrate::Make(options, kFreezer1Rejected | kFreezer2Rejected).value();
    EXPECT_THAT(substrate->probe_result().Describe(), HasSubstr("snapshots of running commands"));
    SandboxOptions wish;
    wish.takes_snapshots = true;
    auto sandbox = substrate->Prepare(wish).value();
    const Command command{.argv = {"/bin/sh", "-c", "echo x > begun; while [ ! -e go ]; do sleep 0.01; done"},
                          .env = {{"PATH", "/usr/bin:/bin"}},
                          .working_dir = sandbox->work(),
                          .stdin_text = ""};
    std::thread runner([&] { EXPECT_TRUE(sandbox->Run(command, Limits{}, nullptr)->ok()); });
    while (!sandbox->ReadFile("begun", 100).ok()) std::this_thread::sleep_for(milliseconds(5));
    const absl::Status rejected = sandbox->TakeSnapshot().status();
    EXPECT_TRUE(absl::IsFailedPrecondition(rejected)) << rejected;
    EXPECT_THAT(std::string(rejected.message()), HasSubstr("take the snapshot between commands"));
    ASSERT_TRUE(sandbox->WriteFile("go", "").ok());
    runner.join();
    EXPECT_TRUE(sandbox->TakeSnapshot().ok());
    ASSERT_TRUE(sandbox->StartCompanion(command, Limits{}).ok());
    EXPECT_TRUE(absl::IsFailedPrecondition(sandbox->TakeSnapshot().status()));
  }
}

INSTANTIATE_TEST_SUITE_P(Versions, FrozenSandboxTest, testing::Values(1, 2),
                         [](const auto& info) { return absl::StrCat("Version", info.param); });

}  // namespace
}  // namespace ingot::sandbox
