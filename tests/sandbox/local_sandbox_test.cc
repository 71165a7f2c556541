// Commands in sandboxes of the isolation level `process`, in each strength that this machine grants.
#include <dirent.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>

#include "absl/strings/str_split.h"
#include "sandbox/marked_processes.h"
#include "sandbox/sandbox_fault.h"
#include "sandbox/test_sandbox.h"

namespace ingot::sandbox::local_sandbox_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

Command Shell(const std::string& script) {
  return {.argv = {"/bin/sh", "-c", script}, .env = {{"PATH", "/usr/bin:/bin"}}, .working_dir = "", .stdin_text = ""};
}

Limits Within(milliseconds wall) {
  Limits limits;
  limits.wall_time = wall;
  limits.term_grace = milliseconds(20);
  return limits;
}

struct Strength {
  const char* name;
  uint32_t rejected;
};

constexpr Strength kStrengths[] = {{"Strongest", 0},
                                   {"WithoutProc", kPrivateProc},
                                   {"WithoutNamespaces", kPidNamespace | kMountNamespace},
                                   {"SharedUid", kOwnUid},
                                   {"Plain", kOwnUid | kPidNamespace | kMountNamespace}};

class SandboxTest : public testing::TestWithParam<Strength> {
 protected:
  SandboxTest() : substrate_(MakeLevelOf(GetParam().rejected)) {}

  std::unique_ptr<LocalSubstrate> MakeLevelOf(uint32_t rejected) const {
    SubstrateOptions options;
    options.work_root = folder_.path() + "/work";
    options.isolation = "process";
    auto substrate = LocalSubstrate::Make(options, rejected);
    EXPECT_TRUE(substrate.ok()) << substrate.status();
    return substrate.ok() ? *std::move(substrate) : nullptr;
  }

  absl::StatusOr<Outcome> Run(const Command& command, const Limits& limits = Within(seconds(60)),
                              const Cancellation* cancel = nullptr) {
    INGOT_ASSIGN_OR_RETURN(const std::unique_ptr<Sandbox> sandbox, substrate_->Prepare());
    return sandbox->Run(command, limits, cancel);
  }

  const TestFolder folder_;
  const MarkedProcesses marked_;  // "sleep " + marked_.sleep() runs until it is killed, and can be found
  const std::unique_ptr<LocalSubstrate> substrate_;
};

INSTANTIATE_TEST_SUITE_P(Strengths, SandboxTest, testing::ValuesIn(kStrengths),
                         [](const auto& info) { return info.param.name; });

int OpenDescriptors() {
  int count = 0;
  DIR* dir = opendir("/proc/self/fd");
  while (readdir(dir) != nullptr) ++count;
  closedir(dir);
  return count;
}

TEST_P(SandboxTest, ReportsOutputExitCodeAndTimes) {
  const auto outcome = Run(Shell("echo out; echo err >&2; exit 3"), Within(seconds(30)));
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(outcome->ending, Ending::kExited);
  EXPECT_EQ(outcome->exit_code, 3);
  EXPECT_FALSE(outcome->ok());
  EXPECT_EQ(outcome->out, "out\n");
  EXPECT_EQ(outcome->err, "err\n");
  EXPECT_GT(outcome->wall.count(), 0);
  EXPECT_GT(outcome->cpu.count(), 0);
  EXPECT_EQ(Describe(*outcome, Limits{}), "exited with 3");
}

TEST_P(SandboxTest, ACommandGetsItsEnvironmentFolderAndStdinAndNoOther) {
  Command command = Shell("cat; pwd; env | sort");
  command.env = {{"PATH", "/usr/bin:/bin"}, {"KEY", "a b"}};
  command.working_dir = "/";
  command.stdin_text = std::string(200000, 'x') + "\n";  // more than any pipe holds
  const auto outcome = Run(command, Within(seconds(30)));
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(outcome->out, command.stdin_text + "/\nKEY=a b\nPATH=/usr/bin:/bin\nPWD=/\n");
}

TEST_P(SandboxTest, WithoutStdinTextItReadsEndOfFile) {
  const auto outcome = Run(Shell("cat; echo end"), Within(seconds(30)));
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(outcome->out, "end\n");
}

TEST_P(SandboxTest, ACommandThatIgnoresItsStdinDoesNotHurt) {
  Command command = Shell("exec 0<&-; echo done");
  command.stdin_text = std::string(1 << 20, 'x');
  EXPECT_EQ(Run(command, Within(seconds(30)))->out, "done\n");
}

TEST_P(SandboxTest, HangingCommandIsKilledWithItsGrandchildren) {
  const std::string sleep = "sleep " + marked_.sleep();
  const auto outcome = Run(Shell(sleep + " & (" + sleep + " & wait) & wait"), Within(milliseconds(300)));
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(outcome->ending, Ending::kTimedOut);
  EXPECT_THAT(Describe(*outcome, Within(milliseconds(300))), HasSubstr("limit of 0.3 s"));
  EXPECT_EQ(marked_.Count(), 0) << "already when Run returns";
}

// timeout(1) makes a process group, setsid(1) a session; the third is an orphan of an orphan in a session of its own.
TEST_P(SandboxTest, DaemonsEndWithTheirCommandWhateverSessionsTheyMade) {
  const std::string go = folder_.path() + "/go";
  std::ofstream(go) << "#!/bin/sh\n: > $D/$1\nexec sleep " << marked_.sleep() << "\n";
  std::filesystem::permissions(go, std::filesystem::perms::all);
  const std::string script =
      "timeout 1000 $D/go 1 & setsid $D/go 2 & (setsid sh -c '(setsid $D/go 3 &) ; $D/go 4 &' &); "
      "for i in 1 2 3 4; do while [ ! -e $D/$i ]; do sleep 0.02; done; rm $D/$i; done; echo started; ";
  for (const char* rest : {"true", "sleep 1000", "kill -9 $$"}) {
    Command command = Shell(script + rest);
    command.env["D"] = folder_.path();
    const bool hangs = std::string(rest).starts_with("sleep");
    const auto outcome = Run(command, Within(hangs ? seconds(4) : seconds(60)));
    ASSERT_TRUE(outcome.ok()) << outcome.status();
    EXPECT_EQ(outcome->out, "started\n") << outcome->err;
    EXPECT_EQ(marked_.Count(), 0) << rest;
  }
}

TEST_P(SandboxTest, ABackgroundProcessDiesWithTheCommand) {
  // The grandchild holds stdout open: a wait for end of file would never end.
  const auto outcome = Run(Shell("sleep " + marked_.sleep() + " & echo started"), Within(seconds(60)));
  ASSERT_TRUE(outcome.ok());
  EXPECT_TRUE(outcome->ok());
  EXPECT_EQ(outcome->out, "started\n");
  EXPECT_LT(outcome->wall, seconds(30));
  EXPECT_EQ(marked_.Count(), 0);
}

TEST_P(SandboxTest, SigtermIsIgnoredInVain) {
  const auto outcome = Run(Shell("trap '' TERM; echo armed; while :; do sleep 1000; done"), Within(milliseconds(600)));
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(outcome->ending, Ending::kTimedOut);
  EXPECT_EQ(outcome->out, "armed\n");
}

TEST_P(SandboxTest, SigtermIsAChanceToFinishButStaysATimeout) {
  Limits limits = Within(milliseconds(600));
  limits.term_grace = seconds(30);
  const auto outcome = Run(Shell("trap 'echo bye; exit 0' TERM; sleep 1000 & wait"), limits);
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(outcome->ending, Ending::kTimedOut);
  EXPECT_EQ(outcome->out, "bye\n");
  EXPECT_LT(outcome->wall, seconds(20));
}

TEST_P(SandboxTest, FloodIsCutAtTheLimitAndNamed) {
  Limits limits = Within(seconds(60));
  limits.output_bytes = 10000;
  for (const char* script : {"cat /dev/zero", "cat /dev/zero >&2"}) {
    const auto outcome = Run(Shell(script), limits);
    ASSERT_TRUE(outcome.ok());
    EXPECT_EQ(outcome->ending, Ending::kOutputOverflow);
    EXPECT_EQ(outcome->out.size() + outcome->err.size(), 10000u);
    EXPECT_THAT(Describe(*outcome, limits), HasSubstr("10000 bytes"));
  }
}

TEST_P(SandboxTest, OutputOfExactlyTheLimitIsFine) {
  Limits limits = Within(seconds(60));
  limits.output_bytes = 5;
  EXPECT_EQ(Run(Shell("echo 1234"), limits)->ending, Ending::kExited);
  EXPECT_EQ(Run(Shell("echo 12345"), limits)->ending, Ending::kOutputOverflow);
}

TEST_P(SandboxTest, CrashNamesItsSignal) {
  const auto outcome = Run(Shell("kill -SEGV $$"), Within(seconds(30)));
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(outcome->ending, Ending::kSignalled);
  EXPECT_EQ(outcome->signal, SIGSEGV);
  EXPECT_THAT(Describe(*outcome, Limits{}), HasSubstr("signal 11"));
}

TEST_P(SandboxTest, TheKernelEndsCommandsFirstWhereMemoryIsUsedUp) {
  const auto outcome = Run(Shell("cat /proc/self/oom_score_adj"), Within(seconds(30)));
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(outcome->out, "1000\n") << outcome->err;
}

TEST_P(SandboxTest, ResourceLimitsReachTheCommand) {
  Limits limits = Within(seconds(30));
  limits.memory_bytes = int64_t{512} << 20;
  limits.open_files = 77;
  limits.cpu_seconds = 9;
  limits.file_bytes = 4096;
  const auto outcome = Run(Shell("ulimit -v; ulimit -n; ulimit -t; ulimit -f; ulimit -c"), limits);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(outcome->out, "524288\n77\n9\n8\n0\n");
}

TEST_P(SandboxTest, ACommandThatCannotRunNamesTheReason) {
  Command missing = Shell("true");
  missing.argv = {"no-such-program-here"};
  EXPECT_EQ(Run(missing).status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(Run(missing).status().message(), HasSubstr("no-such-program-here"));
  missing.argv = {"/no/such/program"};
  EXPECT_EQ(Run(missing).status().code(), absl::StatusCode::kNotFound);

  Command folder = Shell("true");
  folder.working_dir = "/no/such/folder";
  EXPECT_EQ(Run(folder).status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(Run(folder).status().message(), HasSubstr("/no/such/folder"));

  Command denied = Shell("true");
  denied.argv = {"/etc/passwd"};
  EXPECT_EQ(Run(denied).status().code(), absl::StatusCode::kPermissionDenied);

  Command nul = Shell("true");
  nul.argv.push_back(std::string("a\0b", 3));
  EXPECT_EQ(Run(nul).status().code(), absl::StatusCode::kInvalidArgument);
  nul = Shell("true");
  nul.env["BAD"] = std::string("a\0b", 3);
  EXPECT_THAT(Run(nul).status().message(), HasSubstr("BAD"));

  Command huge = Shell("true");
  huge.argv.push_back(std::string(4 << 20, 'x'));
  EXPECT_EQ(Run(huge).status().code(), absl::StatusCode::kInvalidArgument);

  EXPECT_EQ(Run(Command{}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Run(Shell("true"), Within(milliseconds(0))).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_P(SandboxTest, CancelEndsTheRunningCommandAndRejectsTheNext) {
  Cancellation cancel;
  Command hang = Shell("sleep 1000 & echo $!; wait");
  std::thread canceller([&] { cancel.Cancel(); });
  const auto outcome = Run(hang, Within(seconds(60)), &cancel);
  canceller.join();
  if (outcome.ok()) {
    EXPECT_EQ(outcome->ending, Ending::kCancelled);
  } else {
    EXPECT_EQ(outcome.status().code(), absl::StatusCode::kCancelled);
  }
  EXPECT_EQ(Run(hang, Within(seconds(60)), &cancel).status().code(), absl::StatusCode::kCancelled);
}

TEST_P(SandboxTest, DescriptorsOfThisProcessStayHere) {
  const int leaky = open("/dev/null", O_RDONLY);  // without O_CLOEXEC
  const auto outcome = Run(Shell("ls /proc/self/fd"), Within(seconds(30)));
  close(leaky);
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(outcome->out, "0\n1\n2\n3\n");  // 3 is the folder that ls reads
}

TEST_P(SandboxTest, SignalsIgnoredHereAreNotIgnoredThere) {
  const auto before = signal(SIGPIPE, SIG_IGN);
  const auto outcome =
      Run(Shell("while read name mask; do case $name in SigIgn:|SigBlk:) echo $mask;; esac; done < /proc/self/status"),
          Within(seconds(30)));
  signal(SIGPIPE, before);
  ASSERT_TRUE(outcome.ok());
  std::istringstream masks(outcome->out);
  std::uint64_t blocked = 0, ignored = 0;
  ASSERT_TRUE(masks >> std::hex >> blocked >> ignored) << outcome->out;
  // Signals 32 and 33 are the C library's own: no program can set them, and a child inherits their state.
  const std::uint64_t reserved = std::uint64_t{0b11} << 31;
  EXPECT_EQ(blocked & ~reserved, 0U) << outcome->out;
  EXPECT_EQ(ignored & ~reserved, 0U) << outcome->out;
}

TEST_P(SandboxTest, ManyStartsFromManyThreadsLeaveNoDescriptorAndNoZombie) {
  ASSERT_TRUE(Run(Shell("true")).ok());
  const int before = OpenDescriptors();
  std::vector<std::thread> threads;
  std::atomic<int> good{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 25; ++i) {
        const std::string word = absl::StrCat(t, "-", i);
        const auto outcome = Run(Shell("echo " + word));
        if (outcome.ok() && outcome->out == word + "\n") ++good;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, 100);
  EXPECT_EQ(OpenDescriptors(), before);
  siginfo_t info{};
  // The launcher is the only child, and it runs.
  const int found = waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT);
  EXPECT_TRUE(found == 0 && info.si_pid == 0) << "a zombie is left: " << info.si_pid;
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path() + "/work") ||
              std::filesystem::exists(folder_.path() + "/work/uids"));
}

TEST_P(SandboxTest, CommandsOutliveTheLauncherAndTheNextStartHasANewOne) {
  const pid_t first = substrate_->launcher_pid();
  std::thread killer([&] {
    EXPECT_TRUE(marked_.Await(1));
    kill(first, SIGKILL);
    std::ofstream(folder_.path() + "/killed") << "x";
  });
  Command command = Shell("sleep " + marked_.sleep() + " & while [ ! -s $D/killed ]; do sleep 0.02; done; echo here");
  command.env["D"] = folder_.path();
  const auto outcome = Run(command);
  killer.join();
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(outcome->out, "here\n");
  EXPECT_EQ(marked_.Count(), 0);
  const auto next = Run(Shell("echo there"));
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_EQ(next->out, "there\n");
  EXPECT_NE(substrate_->launcher_pid(), first);
}

TEST_P(SandboxTest, ASandboxWhoseFirstProcessIsKilledIsNoOutcomeAndLeavesNothing) {
  std::thread killer([&] {
    EXPECT_TRUE(marked_.Await(2));
    kill(marked_.FirstProcess(), SIGKILL);
  });
  const auto outcome = Run(Shell("setsid sleep " + marked_.sleep() + " & exec sleep " + marked_.sleep()));
  killer.join();
  EXPECT_EQ(outcome.status().code(), absl::StatusCode::kUnavailable) << outcome.status();
  EXPECT_TRUE(marked_.AwaitNone());
  EXPECT_EQ(Run(Shell("echo here"))->out, "here\n");
}

// kill -9 of the process that owns the substrate.
TEST_P(SandboxTest, KillOfItsOwnerTakesTheCommandAndItsDaemons) {
  const std::string sleep = "sleep " + marked_.sleep();
  const pid_t victim = fork();
  if (victim == 0) {
    const auto substrate = MakeLevelOf(GetParam().rejected);
    auto sandbox = substrate->Prepare();
    (void)(*sandbox)->Run(Shell(sleep + " & setsid " + sleep + " & timeout 1000 " + sleep + " & wait"),
                          Within(seconds(1000)), nullptr);
    _exit(0);
  }
  EXPECT_TRUE(marked_.Await(3));
  kill(victim, SIGKILL);
  waitpid(victim, nullptr, 0);
  EXPECT_TRUE(marked_.AwaitNone());
}

TEST_P(SandboxTest, TheKernelKillsTheFirstProcessWithItsParent) {
  Command command = Shell("true");
  command.argv = {"python3", "-c",
                  "import ctypes; s = ctypes.c_int(); ctypes.CDLL(None).prctl(2, ctypes.byref(s)); print(s.value)"};
  const auto outcome = Run(command);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(outcome->out, "9\n") << outcome->err;  // PR_GET_PDEATHSIG: SIGKILL
}

TEST_P(SandboxTest, PeakMemoryIsReported) {
  const auto small = Run(Shell("true"));
  ASSERT_TRUE(small.ok());
  EXPECT_GT(small->max_rss_bytes, 0);
  EXPECT_LT(small->max_rss_bytes, int64_t{50} << 20);
  const auto large = Run(Shell("dd if=/dev/zero of=/dev/null bs=300M count=1 2>/dev/null"));
  ASSERT_TRUE(large.ok());
  EXPECT_GT(large->max_rss_bytes, int64_t{290} << 20);
}

TEST_P(SandboxTest, FoldersAreTheSandboxesOwnAndGoWithIt) {
  std::string path;
  {
    auto sandbox = substrate_->Prepare();
    ASSERT_TRUE(sandbox.ok()) << sandbox.status();
    ASSERT_TRUE(
        (*sandbox)->WriteFile("in/run", "#!/bin/sh\necho \"$HOME $TMPDIR\"; echo made > out; cat in/data").ok());
    ASSERT_TRUE((*sandbox)->WriteFile("in/data", "42").ok());
    Command command = Shell("true");
    command.argv = {"in/run"};
    command.env.insert({{"HOME", (*sandbox)->home()}, {"TMPDIR", (*sandbox)->tmp()}});
    command.working_dir = (*sandbox)->work();
    const auto outcome = (*sandbox)->Run(command, Within(seconds(60)), nullptr);
    ASSERT_TRUE(outcome.ok()) << outcome.status();
    EXPECT_EQ(outcome->out, (*sandbox)->home() + " " + (*sandbox)->tmp() + "\n42") << outcome->err;
    EXPECT_EQ((*sandbox)->ReadFile("out", 100).value(), "made\n");
    const std::string own = (*sandbox)->AddFolder("verifier-home").value();
    command.argv = {"/bin/sh", "-c", "touch $0/a $HOME/b $TMPDIR/c && cat in/data", own};
    EXPECT_TRUE((*sandbox)->Run(command, Within(seconds(60)), nullptr)->ok());
    path = std::filesystem::path((*sandbox)->work()).parent_path();
    EXPECT_TRUE(std::filesystem::exists(path));
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_P(SandboxTest, AFileReplacesWhateverAnAgentPutInItsPlace) {
  const auto sandbox = substrate_->Prepare().value();
  Command command = Shell("mkfifo pipe; ln -s /etc/passwd link; echo old > file; chmod 000 file");
  command.working_dir = sandbox->work();
  ASSERT_TRUE(sandbox->Run(command, Within(seconds(60)), nullptr)->ok());
  for (const char* name : {"pipe", "link", "file"}) {
    ASSERT_TRUE(sandbox->WriteFile(name, "new").ok()) << name;
    EXPECT_EQ(sandbox->ReadFile(name, 10).value(), "new");
  }
}

TEST_P(SandboxTest, AKeptFolderIsClosedToLaterSandboxes) {
  auto sandbox = substrate_->Prepare().value();
  ASSERT_TRUE(sandbox->WriteFile("secret", "s").ok());
  const auto kept = sandbox->KeepFolders("ep/1", {{"stdout.txt", "said"}});
  ASSERT_TRUE(kept.ok()) << kept.status();
  sandbox.reset();
  EXPECT_TRUE(std::filesystem::exists(*kept + "/work/secret"));
  EXPECT_TRUE(std::filesystem::exists(*kept + "/stdout.txt"));
  if (!substrate_->probe_result().own_uid && !substrate_->probe_result().mount_namespace) return;
  const auto outcome = Run(Shell("cat " + *kept + "/work/secret"));
  ASSERT_TRUE(outcome.ok());
  EXPECT_FALSE(outcome->ok()) << outcome->out;
}

TEST(SandboxFaultTest, AnAgentFailsForAFolderThatItCouldRemoveAndForNoOther) {
  for (const std::string who : {"shared", "own"}) {
    if (geteuid() != 0 && who == "own") continue;
    const TestFolder folder;
    SubstrateOptions options;
    options.work_root = folder.path() + "/work";
    options.isolation = "process";
    options.agent_uid = who;
    const auto substrate = LocalSubstrate::Make(options).value();
    auto sandbox = substrate->Prepare().value();
    Command remove = Shell("cd /; rm -rf \"$WORK\"");
    remove.env["WORK"] = sandbox->work();
    ASSERT_TRUE(sandbox->Run(remove, Within(seconds(20)), nullptr).ok());
    // The folder around is the runner's: of an agent with a uid of its own, somebody else removed it.
    if (who == "own") std::filesystem::remove_all(std::filesystem::path(sandbox->work()).parent_path());
    const absl::Status snapshot = sandbox->TakeSnapshot().status();
    EXPECT_FALSE(snapshot.ok());
    EXPECT_EQ(IsSandboxFault(snapshot), who == "shared") << snapshot;
    const absl::Status added = sandbox->AddFolder("more").status();
    EXPECT_FALSE(IsSandboxFault(added)) << added;
  }
}

}  // namespace
}  // namespace ingot::sandbox::local_sandbox_test
