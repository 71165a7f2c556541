#include "sandbox/process.h"

#include <dirent.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>

#include "absl/strings/str_split.h"

namespace ingot::sandbox {
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

// True: within 10 s the process is gone, or a zombie that nobody has reaped.
bool Dies(pid_t pid) {
  const int fd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  if (fd < 0) return errno == ESRCH;
  pollfd wait{fd, POLLIN, 0};
  const bool dead = poll(&wait, 1, 10000) == 1;
  close(fd);
  return dead;
}

bool Runs(pid_t pid) {
  const int fd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  if (fd < 0) return errno != ESRCH;
  pollfd wait{fd, POLLIN, 0};
  const bool dead = poll(&wait, 1, 0) == 1;
  close(fd);
  return !dead;
}

int OpenDescriptors() {
  int count = 0;
  DIR* dir = opendir("/proc/self/fd");
  while (readdir(dir) != nullptr) ++count;
  closedir(dir);
  return count;
}

TEST(ProcessTest, ReportsOutputExitCodeAndTimes) {
  const auto outcome = RunCommand(Shell("echo out; echo err >&2; exit 3"), Within(seconds(30)));
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

TEST(ProcessTest, ACommandGetsItsEnvironmentFolderAndStdinAndNoOther) {
  Command command = Shell("cat; pwd; env | sort");
  command.env = {{"PATH", "/usr/bin:/bin"}, {"KEY", "a b"}};
  command.working_dir = "/";
  command.stdin_text = std::string(200000, 'x') + "\n";  // more than any pipe holds
  const auto outcome = RunCommand(command, Within(seconds(30)));
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(outcome->out, command.stdin_text + "/\nKEY=a b\nPATH=/usr/bin:/bin\nPWD=/\n");
}

TEST(ProcessTest, WithoutStdinTextItReadsEndOfFile) {
  const auto outcome = RunCommand(Shell("cat; echo end"), Within(seconds(30)));
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(outcome->out, "end\n");
}

TEST(ProcessTest, ACommandThatIgnoresItsStdinDoesNotHurt) {
  Command command = Shell("exec 0<&-; echo done");
  command.stdin_text = std::string(1 << 20, 'x');
  EXPECT_EQ(RunCommand(command, Within(seconds(30)))->out, "done\n");
}

TEST(ProcessTest, HangingCommandIsKilledWithItsGrandchildren) {
  const auto outcome =
      RunCommand(Shell("sleep 1000 & echo $!; (sleep 1000 & echo $!; wait) & wait"), Within(milliseconds(300)));
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(outcome->ending, Ending::kTimedOut);
  EXPECT_THAT(Describe(*outcome, Within(milliseconds(300))), HasSubstr("limit of 0.3 s"));
  const std::vector<std::string> pids = absl::StrSplit(outcome->out, '\n', absl::SkipEmpty());
  ASSERT_EQ(pids.size(), 2u) << outcome->out;
  for (const std::string& pid : pids) EXPECT_TRUE(Dies(std::stoi(pid)));
}

TEST(ProcessTest, AProcessThatMadeAGroupOfItsOwnDiesWithTheSession) {
  // timeout(1) leaves its parent's group before it starts its command.
  const std::string script = "timeout 1000 sh -c 'echo $PPID; echo $$; sleep 1000' & ";
  for (const std::string rest : {"wait", "while :; do sleep 0.01; done", "sleep 0.3"}) {
    const auto outcome = RunCommand(Shell(script + rest), Within(milliseconds(rest == "sleep 0.3" ? 60000 : 300)));
    ASSERT_TRUE(outcome.ok());
    EXPECT_EQ(outcome->ending, rest == "sleep 0.3" ? Ending::kExited : Ending::kTimedOut);
    const std::vector<std::string> pids = absl::StrSplit(outcome->out, '\n', absl::SkipEmpty());
    ASSERT_EQ(pids.size(), 2u) << outcome->out;
    for (const std::string& pid : pids) EXPECT_FALSE(Runs(std::stoi(pid))) << "already when RunCommand returns";
  }
}

TEST(ProcessTest, ABackgroundProcessDiesWithTheCommand) {
  // The grandchild holds stdout open: a wait for end of file would never end.
  const auto outcome = RunCommand(Shell("sleep 1000 & echo $!"), Within(seconds(60)));
  ASSERT_TRUE(outcome.ok());
  EXPECT_TRUE(outcome->ok());
  EXPECT_LT(outcome->wall, seconds(30));
  EXPECT_TRUE(Dies(std::stoi(outcome->out)));
}

TEST(ProcessTest, SigtermIsIgnoredInVain) {
  const auto outcome =
      RunCommand(Shell("trap '' TERM; echo armed; while :; do sleep 1000; done"), Within(milliseconds(200)));
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(outcome->ending, Ending::kTimedOut);
  EXPECT_EQ(outcome->out, "armed\n");
}

TEST(ProcessTest, SigtermIsAChanceToFinishButStaysATimeout) {
  Limits limits = Within(milliseconds(200));
  limits.term_grace = seconds(30);
  const auto outcome = RunCommand(Shell("trap 'echo bye; exit 0' TERM; sleep 1000 & wait"), limits);
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(outcome->ending, Ending::kTimedOut);
  EXPECT_EQ(outcome->out, "bye\n");
  EXPECT_LT(outcome->wall, seconds(20));
}

TEST(ProcessTest, FloodIsCutAtTheLimitAndNamed) {
  Limits limits = Within(seconds(60));
  limits.output_bytes = 10000;
  for (const char* script : {"cat /dev/zero", "cat /dev/zero >&2"}) {
    const auto outcome = RunCommand(Shell(script), limits);
    ASSERT_TRUE(outcome.ok());
    EXPECT_EQ(outcome->ending, Ending::kOutputOverflow);
    EXPECT_EQ(outcome->out.size() + outcome->err.size(), 10000u);
    EXPECT_THAT(Describe(*outcome, limits), HasSubstr("10000 bytes"));
  }
}

TEST(ProcessTest, OutputOfExactlyTheLimitIsFine) {
  Limits limits = Within(seconds(60));
  limits.output_bytes = 5;
  EXPECT_EQ(RunCommand(Shell("echo 1234"), limits)->ending, Ending::kExited);
  EXPECT_EQ(RunCommand(Shell("echo 12345"), limits)->ending, Ending::kOutputOverflow);
}

TEST(ProcessTest, CrashNamesItsSignal) {
  const auto outcome = RunCommand(Shell("kill -SEGV $$"), Within(seconds(30)));
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(outcome->ending, Ending::kSignalled);
  EXPECT_EQ(outcome->signal, SIGSEGV);
  EXPECT_THAT(Describe(*outcome, Limits{}), HasSubstr("signal 11"));
}

TEST(ProcessTest, ResourceLimitsReachTheCommand) {
  Limits limits = Within(seconds(30));
  limits.memory_bytes = int64_t{512} << 20;
  limits.open_files = 77;
  limits.cpu_seconds = 9;
  limits.file_bytes = 4096;
  const auto outcome = RunCommand(Shell("ulimit -v; ulimit -n; ulimit -t; ulimit -f; ulimit -c"), limits);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(outcome->out, "524288\n77\n9\n8\n0\n");
}

TEST(ProcessTest, ACommandThatCannotRunNamesTheReason) {
  Command missing = Shell("true");
  missing.argv = {"no-such-program-here"};
  EXPECT_EQ(RunCommand(missing, Limits{}).status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(RunCommand(missing, Limits{}).status().message(), HasSubstr("no-such-program-here"));
  missing.argv = {"/no/such/program"};
  EXPECT_EQ(RunCommand(missing, Limits{}).status().code(), absl::StatusCode::kNotFound);

  Command folder = Shell("true");
  folder.working_dir = "/no/such/folder";
  EXPECT_EQ(RunCommand(folder, Limits{}).status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(RunCommand(folder, Limits{}).status().message(), HasSubstr("/no/such/folder"));

  Command denied = Shell("true");
  denied.argv = {"/etc/passwd"};
  EXPECT_EQ(RunCommand(denied, Limits{}).status().code(), absl::StatusCode::kPermissionDenied);

  Command nul = Shell("true");
  nul.argv.push_back(std::string("a\0b", 3));
  EXPECT_EQ(RunCommand(nul, Limits{}).status().code(), absl::StatusCode::kInvalidArgument);
  nul = Shell("true");
  nul.env["BAD"] = std::string("a\0b", 3);
  EXPECT_THAT(RunCommand(nul, Limits{}).status().message(), HasSubstr("BAD"));

  Command huge = Shell("true");
  huge.argv.push_back(std::string(4 << 20, 'x'));
  EXPECT_EQ(RunCommand(huge, Limits{}).status().code(), absl::StatusCode::kInvalidArgument);

  EXPECT_EQ(RunCommand(Command{}, Limits{}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(RunCommand(Shell("true"), Within(milliseconds(0))).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(ProcessTest, CancelEndsTheRunningCommandAndRefusesTheNext) {
  Cancellation cancel;
  Command hang = Shell("sleep 1000 & echo $!; wait");
  std::thread canceller([&] { cancel.Cancel(); });
  const auto outcome = RunCommand(hang, Within(seconds(60)), &cancel);
  canceller.join();
  if (outcome.ok()) {
    EXPECT_EQ(outcome->ending, Ending::kCancelled);
  } else {
    EXPECT_EQ(outcome.status().code(), absl::StatusCode::kCancelled);
  }
  EXPECT_EQ(RunCommand(hang, Within(seconds(60)), &cancel).status().code(), absl::StatusCode::kCancelled);
}

TEST(ProcessTest, DescriptorsOfThisProcessStayHere) {
  const int leaky = open("/dev/null", O_RDONLY);  // without O_CLOEXEC
  const auto outcome = RunCommand(Shell("ls /proc/self/fd"), Within(seconds(30)));
  close(leaky);
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(outcome->out, "0\n1\n2\n3\n");  // 3 is the folder that ls reads
}

TEST(ProcessTest, SignalsIgnoredHereAreNotIgnoredThere) {
  const auto before = signal(SIGPIPE, SIG_IGN);
  const auto outcome = RunCommand(
      Shell("while read name mask; do case $name in SigIgn:|SigBlk:) echo $mask;; esac; done < /proc/self/status"),
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

TEST(ProcessTest, ManySpawnsFromManyThreadsLeaveNoDescriptorAndNoZombie) {
  ASSERT_TRUE(RunCommand(Shell("true"), Within(seconds(30))).ok());  // starts the guard
  const int before = OpenDescriptors();
  std::vector<std::thread> threads;
  std::atomic<int> good{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        const std::string word = absl::StrCat(t, "-", i);
        const auto outcome = RunCommand(Shell("echo " + word), Within(seconds(60)));
        if (outcome.ok() && outcome->out == word + "\n") ++good;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, 200);
  EXPECT_EQ(OpenDescriptors(), before);
  siginfo_t info{};
  // The guard is the only child left, and it runs.
  const int found = waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT);
  EXPECT_TRUE(found == 0 && info.si_pid == 0) << "a zombie is left: " << info.si_pid;
}

TEST(ProcessTest, AsSubreaperItLeavesNoZombieOfGrandchildren) {
  ASSERT_EQ(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
  const auto outcome = RunCommand(Shell("sleep 1000 & echo $!; timeout 1000 sh -c 'echo $$; sleep 1000' & sleep 0.3"),
                                  Within(seconds(60)));
  prctl(PR_SET_CHILD_SUBREAPER, 0);
  ASSERT_TRUE(outcome.ok());
  const std::vector<std::string> pids = absl::StrSplit(outcome->out, '\n', absl::SkipEmpty());
  ASSERT_EQ(pids.size(), 2u) << outcome->out;
  for (const std::string& pid : pids) {
    EXPECT_EQ(kill(std::stoi(pid), 0), -1);
    EXPECT_EQ(errno, ESRCH);
  }
}

// Runs `script` in a forked process and waits until it writes a line to $FIFO. Then kills the process with SIGKILL and
// returns the line.
std::string KilledInTheMiddleOf(const std::string& script) {
  char folder[] = "/tmp/ingot-kill-XXXXXX";
  EXPECT_NE(mkdtemp(folder), nullptr);
  const std::string fifo = std::string(folder) + "/fifo";
  EXPECT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  const pid_t victim = fork();
  if (victim == 0) {
    Command command = Shell(script);
    command.env["FIFO"] = fifo;
    (void)RunCommand(command, Within(seconds(1000)));
    _exit(0);
  }
  std::string line;
  std::ifstream(fifo) >> line;  // blocks until the script runs
  kill(victim, SIGKILL);
  waitpid(victim, nullptr, 0);
  unlink(fifo.c_str());
  rmdir(folder);
  return line;
}

TEST(ProcessTest, KillOfThisProcessTakesTheCommandAndItsGrandchildren) {
  const std::string pids = KilledInTheMiddleOf("sleep 1000 & echo $$,$! > $FIFO; wait");
  const std::vector<std::string> both = absl::StrSplit(pids, ',');
  ASSERT_EQ(both.size(), 2u) << pids;
  EXPECT_TRUE(Dies(std::stoi(both[0])));
  EXPECT_TRUE(Dies(std::stoi(both[1])));
}

TEST(ProcessTest, KillOfThisProcessTakesGroupsThatTheCommandMade) {
  const std::string pids = KilledInTheMiddleOf("timeout 1000 sh -c 'echo $PPID,$$ > $FIFO; sleep 1000' & wait");
  const std::vector<std::string> both = absl::StrSplit(pids, ',');
  ASSERT_EQ(both.size(), 2u) << pids;
  EXPECT_TRUE(Dies(std::stoi(both[0])));
  EXPECT_TRUE(Dies(std::stoi(both[1])));
}

TEST(ProcessTest, TheKernelKillsTheFirstProcessEvenWithoutTheGuard) {
  Command command = Shell("true");
  command.argv = {"python3", "-c",
                  "import ctypes; s = ctypes.c_int(); ctypes.CDLL(None).prctl(2, ctypes.byref(s)); print(s.value)"};
  const auto outcome = RunCommand(command, Within(seconds(60)));
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(outcome->out, "9\n") << outcome->err;  // PR_GET_PDEATHSIG: SIGKILL
}

TEST(ProcessTest, PeakMemoryIsReportedWhenItCanBeKnown) {
  // About 300 MiB: above the peak of this process, which vfork counts in.
  const auto outcome = RunCommand(Shell("head -c 300000000 /dev/zero | tail -c 1 >/dev/null; "
                                        "dd if=/dev/zero of=/dev/null bs=300M count=1 2>/dev/null"),
                                  Within(seconds(60)));
  ASSERT_TRUE(outcome.ok());
  EXPECT_GT(outcome->max_rss_bytes, int64_t{290} << 20);
}

}  // namespace
}  // namespace ingot::sandbox
