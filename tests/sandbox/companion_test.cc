// Commands next to companions: they are apart (launcher/apart.h), and everything else is as without companions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include "sandbox/marked_processes.h"
#include "sandbox/test_sandbox.h"

namespace ingot::sandbox {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

Command Shell(const std::string& script, const Sandbox& sandbox) {
  return {.argv = {"/bin/sh", "-c", script},
          .env = {{"PATH", "/usr/bin:/bin"}},
          .working_dir = sandbox.work(),
          .stdin_text = ""};
}

Limits Within(milliseconds time) {
  Limits limits;
  limits.wall_time = time;
  return limits;
}

class CompanionTest : public testing::Test {
 protected:
  // Skips the test where sandboxes have no network of their own.
  void SetUp() override {
    options_.work_root = folder_.path() + "/work";
    Make("auto");
    if (!substrate_->probe_result().own_network) GTEST_SKIP() << "not granted";
  }

  void Make(const std::string& isolation) {
    sandbox_.reset();
    options_.isolation = isolation;
    substrate_ = LocalSubstrate::Make(options_).value();
    sandbox_ = substrate_->Prepare().value();
  }

  // A companion that has begun to run, and the descriptor that tells of its end.
  Companion Begin(const std::string& script) {
    Companion companion = sandbox_->StartCompanion(Shell(": > begun; " + script, *sandbox_), Limits()).value();
    pollfd gone{companion.input.get(), 0, 0};
    while (!sandbox_->ReadFile("begun", 1).ok() && poll(&gone, 1, 5) == 0) continue;
    return companion;
  }
  void Await(const std::string& file) {
    for (int i = 0; i < 4000 && !sandbox_->ReadFile(file, 1).ok(); ++i) std::this_thread::sleep_for(milliseconds(5));
  }
  static bool IsGone(const Companion& companion, int timeout_ms = 0) {
    pollfd gone{companion.input.get(), 0, 0};
    return poll(&gone, 1, timeout_ms) == 1;
  }

  Outcome Run(const std::string& script, milliseconds time = seconds(60)) {
    auto outcome = sandbox_->Run(Shell(script, *sandbox_), Within(time), nullptr);
    EXPECT_TRUE(outcome.ok()) << outcome.status();
    return outcome.ok() ? *std::move(outcome) : Outcome();
  }

  const TestFolder folder_;
  const MarkedProcesses marked_;
  SubstrateOptions options_;
  std::unique_ptr<LocalSubstrate> substrate_;
  std::unique_ptr<Sandbox> sandbox_;
};

TEST_F(CompanionTest, ACommandSeesItsOwnProcessesAlone) {
  const Companion companion = Begin("exec sleep " + marked_.sleep());
  const Outcome outcome = Run("cat /proc/[0-9]*/cmdline | tr '\\0' ' '; echo; kill -9 -1; true");
  EXPECT_THAT(outcome.out, testing::Not(HasSubstr(marked_.sleep())));
  EXPECT_THAT(outcome.out, HasSubstr("/bin/sh -c"));
}

TEST_F(CompanionTest, TheEndOfACommandIsReportedAsWithoutCompanions) {
  for (int i = 0; i < 3; ++i) {
    const Companion companion = Begin("exec sleep " + marked_.sleep());
    if (i == 0) {
      const Outcome outcome = Run("echo out; echo err >&2; head -c 60000000 /dev/zero | tail -c 1 > f; exit 3");
      EXPECT_EQ(outcome.ending, Ending::kExited);
      EXPECT_EQ(outcome.exit_code, 3);
      EXPECT_EQ(outcome.out, "out\n");
      EXPECT_EQ(outcome.err, "err\n");
      EXPECT_GT(outcome.cpu.count(), 0);
      EXPECT_GT(outcome.max_rss_bytes, 0);
    } else if (i == 1) {
      const Outcome outcome = Run("kill -SEGV $$");
      EXPECT_EQ(outcome.ending, Ending::kSignalled);
      EXPECT_EQ(outcome.signal, SIGSEGV);
    } else {
      EXPECT_EQ(Run("sleep 1000 & wait", milliseconds(300)).ending, Ending::kTimedOut);
    }
    EXPECT_TRUE(IsGone(companion)) << "it ends with the command " << i;
    EXPECT_EQ(marked_.Count(), 0);
  }
}

TEST_F(CompanionTest, DaemonsOfTheCommandEndWithIt) {
  const Companion companion = Begin("exec sleep 1000");
  const Outcome outcome = Run("setsid sleep " + marked_.sleep() + " & (setsid sh -c 'sleep " + marked_.sleep() +
                              "' &); while [ $(cat /proc/[0-9]*/cmdline | tr '\\0' '\\n' | grep -cx " +
                              marked_.sleep() + ") -lt 2 ]; do sleep 0.02; done; echo started");
  EXPECT_EQ(outcome.out, "started\n") << outcome.err;
  EXPECT_EQ(marked_.Count(), 0);
}

TEST_F(CompanionTest, ACommandThatDoesNotStartLeavesTheCompanion) {
  const Companion companion = Begin("exec sleep 1000");
  Command missing = Shell("", *sandbox_);
  missing.argv = {"/no/such/program"};
  EXPECT_EQ(sandbox_->Run(missing, Limits(), nullptr).status().code(), absl::StatusCode::kNotFound);
  EXPECT_FALSE(IsGone(companion));
  EXPECT_EQ(Run("echo next").out, "next\n");
  EXPECT_TRUE(IsGone(companion));
  EXPECT_EQ(Run("echo alone").out, "alone\n");
}

TEST_F(CompanionTest, BothWriteTheWorkFolderAndItsSnapshot) {
  SandboxOptions wish;
  wish.takes_snapshots = true;
  sandbox_ = substrate_->Prepare(wish).value();
  const Companion companion = Begin("while [ ! -e ask ]; do sleep 0.02; done; echo served > answer; exec sleep 1000");
  std::thread runner([&] {
    EXPECT_EQ(Run(": > ask; while [ ! -e answer ]; do sleep 0.02; done; cat answer; : > asked; "
                  "while [ ! -e go ]; do sleep 0.02; done; echo on")
                  .out,
              "served\non\n");
  });
  while (!sandbox_->ReadFile("asked", 1).ok()) std::this_thread::sleep_for(milliseconds(5));
  const auto snapshot = sandbox_->TakeSnapshot();
  EXPECT_TRUE(snapshot.ok()) << snapshot.status();
  EXPECT_FALSE(IsGone(companion));
  EXPECT_TRUE(sandbox_->WriteFile("go", "").ok());
  runner.join();
  SandboxOptions fork;
  fork.from = snapshot.value();
  auto leaf = substrate_->Prepare(fork).value();
  EXPECT_EQ(leaf->Run(Shell("cat answer; ls", *leaf), Limits(), nullptr)->out, "served\nanswer\nask\nasked\nbegun\n");
}

TEST_F(CompanionTest, MemoryOfBothCountsInTheTotal) {
  options_.totals.memory_bytes = 120 << 20;
  Make("namespaces");
  const std::string hold =
      "exec python3 -c 'x = bytearray(70 << 20); import time; open(\"held\" + str(len(x)), "
      "\"w\"); time.sleep(90)'";
  const Companion companion = Begin(hold);
  EXPECT_EQ(Run(hold, seconds(80)).ending, Ending::kMemoryFull);
}

// Its commands see themselves as root.
TEST_F(CompanionTest, InAnImageToo) {
  if (access("/bin/busybox", X_OK) != 0 || !substrate_->probe_result().layers) GTEST_SKIP() << "not granted";
  const std::string image = folder_.path() + "/image";
  for (const char* const folder : {"/bin", "/proc", "/dev", "/tmp", "/etc"}) {
    std::filesystem::create_directories(image + folder);
  }
  std::filesystem::copy_file("/bin/busybox", image + "/bin/busybox");
  for (const char* const name : {"sh", "sleep", "ls", "cat", "id", "kill"}) {
    std::filesystem::create_symlink("busybox", image + "/bin/" + name);
  }
  options_.visible = {image};
  Make("auto");
  SandboxOptions wish;
  wish.image = image;
  auto sandbox = substrate_->Prepare(wish);
  ASSERT_TRUE(sandbox.ok()) << sandbox.status();
  sandbox_ = *std::move(sandbox);
  const Companion companion = Begin("exec /bin/busybox sleep 1000");
  const Outcome outcome = Run("PATH=/bin; id -u; ls -d /proc/[0-9]*; : > /etc/new; cat /etc/new; kill -9 -1");
  EXPECT_THAT(outcome.out, testing::StartsWith("0\n/proc/1\n/proc/2\n")) << outcome.err;
}

// The agent has the uid of the one who keeps the output where that is not root.
TEST_F(CompanionTest, NoCommandFindsTheOutputOfACompanionAndAKeptFolderHasIt) {
  sandbox_.reset();
  substrate_.reset();
  for (const uid_t user : Users()) {
    As(user, [&] {
      options_.work_root = folder_.path() + "/work-" + std::to_string(user);
      Make("auto");
      if (!substrate_->probe_result().own_network) return;
      const Companion companion = Begin("printf 'key %s of the service' 17; : > said; exec sleep 1000");
      Await("said");
      const std::string found = Run("ls .. | tr '\\n' ' '; grep -rs 'key 17' .. /tmp").out;
      EXPECT_EQ(found.find("key 17"), std::string::npos) << found;
      EXPECT_EQ(found.find("companion"), std::string::npos) << found;
      const auto kept = sandbox_->KeepFolders(absl::StrCat("user-", user), {});
      ASSERT_TRUE(kept.ok()) << kept.status();
      std::ifstream file(*kept + "/companion-0.txt");
      std::string text;
      std::getline(file, text);
      EXPECT_EQ(text, "key 17 of the service");
      sandbox_.reset();
      substrate_.reset();
    });
  }
}

TEST_F(CompanionTest, TheOutputOfACompanionIsOfTheSandboxesDisk) {
  options_.disk.bytes = 4 << 20;
  Make("auto");
  const Companion companion = Begin("head -c 8000000 /dev/zero; : > said; exec sleep 1000");
  Await("said");
  EXPECT_EQ(Run("sleep 20").ending, Ending::kDiskFull);
}

TEST_F(CompanionTest, TheEndOfASandboxEndsCompanions) {
  const Companion companion = Begin("exec sleep " + marked_.sleep());
  EXPECT_TRUE(marked_.Await(1));
  sandbox_.reset();
  EXPECT_TRUE(IsGone(companion, 20'000));
  EXPECT_EQ(marked_.Count(), 0);
}

}  // namespace
}  // namespace ingot::sandbox
