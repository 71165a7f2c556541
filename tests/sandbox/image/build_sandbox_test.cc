// The sandbox of builds, with a hostile program in buildah's place: it is root of the user namespace, with all that buildah may do.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "sandbox/build_attacks.h"
#include "sandbox/image/build_messages.h"
#include "sandbox/image/build_sandbox.h"
#include "sandbox/test_sandbox.h"

namespace ingot::sandbox {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class BuildSandboxTest : public testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "needs root";
    auto sandbox = BuildSandbox::Make(folder_.path(), *EgressList::Parse({}));
    if (!sandbox.ok()) GTEST_SKIP() << sandbox.status();
    sandbox_.emplace(*std::move(sandbox));
    scratch_ = folder_.path() + "/scratch";
    for (const char* const part : {"", "/var", "/tmp"}) {
      fs::create_directories(scratch_ + part);
      ASSERT_EQ(chown((scratch_ + part).c_str(), sandbox_->first_id(), sandbox_->first_id()), 0);
      fs::permissions(scratch_ + part, fs::perms(0755));
    }
  }
  // The exit code of the program, whose output is in Log().
  int Run(const std::vector<std::string>& argv) {
    const Fd out(open(Log().c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    const auto pid = sandbox_->Start(
        {.argv = argv, .variables = {"PATH=/usr/bin:/bin"}, .scratch = scratch_, .visible = {}}, out.get());
    EXPECT_TRUE(pid.ok()) << pid.status();
    int status = 0;
    if (!pid.ok() || waitpid(*pid, &status, 0) != *pid) return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  int Shell(const std::string& script) { return Run({"/bin/sh", "-c", script}); }
  std::string Log() const { return folder_.path() + "/log"; }
  std::string Said() const {
    std::ostringstream text;
    text << std::ifstream(Log()).rdbuf();
    return text.str();
  }

  const TestFolder folder_;
  std::optional<BuildSandbox> sandbox_;
  std::string scratch_;
};

TEST_F(BuildSandboxTest, ItsRootReachesNothingOfTheMachine) {
  const AttackTargets targets(folder_.path());
  fs::copy_file(INGOT_BUILD_ATTACK, scratch_ + "/attack");
  std::vector<std::string> argv = {absl::StrCat(kBuildScratch, "/attack")};
  for (const std::string& argument : targets.Arguments()) argv.push_back(argument);
  EXPECT_EQ(Run(argv), 0) << Said();
  ExpectRejected(OutcomesOf(Log()));
  targets.ExpectAsTheyWere();
}

TEST_F(BuildSandboxTest, ItIsRootOverARangeOfUidsThatAreNobodysOutside) {
  EXPECT_EQ(Shell("id -u; cat /proc/self/uid_map; touch /.image/mine /tmp/also && chown 1000:1000 /.image/mine; ls "
                  "/proc | grep -c '^[0-9]'"),
            0)
      << Said();
  EXPECT_THAT(Said(), testing::StartsWith("0\n"));
  EXPECT_THAT(Said(), HasSubstr(absl::StrCat(sandbox_->first_id(), "      65536")));
  struct stat info{};
  ASSERT_EQ(stat((scratch_ + "/mine").c_str(), &info), 0);
  EXPECT_EQ(info.st_uid, sandbox_->first_id() + 1000);
  EXPECT_GE(sandbox_->first_id(), 1u << 31);
  EXPECT_TRUE(fs::exists(scratch_ + "/tmp/also"));
  auto other = BuildSandbox::Make(folder_.path(), *EgressList::Parse({}));
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_NE(other->first_id(), sandbox_->first_id());
}

TEST_F(BuildSandboxTest, ItSeesProgramsAndItsScratchAlone) {
  EXPECT_EQ(Shell("ls / /etc /home /root; cat /etc/passwd /etc/hosts; touch /usr/x /etc/x /x 2>&1; id -u"), 0);
  EXPECT_THAT(Said(), testing::Not(HasSubstr("shadow")));
  EXPECT_THAT(Said(), HasSubstr("root:x:0:0:root:/root:/bin/sh"));
  EXPECT_THAT(Said(), testing::Not(HasSubstr("daemon"))) << "the machine's users";
  EXPECT_THAT(Said(), HasSubstr("'/usr/x': Read-only file system"));
  EXPECT_THAT(Said(), HasSubstr("'/x': Read-only file system"));
}

TEST_F(BuildSandboxTest, WhatItLeavesBehindEndsWithIt) {
  EXPECT_EQ(Shell("exec 3>/.image/held; setsid sleep 1000 & exit 7"), 7) << Said();
  sandbox_.reset();
  for (const auto& entry : fs::directory_iterator("/proc")) {
    std::error_code none;
    for (fs::directory_iterator it(entry.path() / "fd", none), end; !none && it != end; it.increment(none))
      EXPECT_NE(fs::read_symlink(it->path(), none).string(), scratch_ + "/held") << entry.path();
  }
}

TEST_F(BuildSandboxTest, AProgramThatIsNotThereIsNamed) {
  EXPECT_EQ(Run({"/none"}), 127);
  EXPECT_THAT(Said(), HasSubstr("/none: No such file"));
}

TEST_F(BuildSandboxTest, AStepThatTheMachineRejectsIsNamed) {
  fs::remove(scratch_ + "/var");  // stands for any of them
  const Fd out(open(Log().c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  const auto pid =
      sandbox_->Start({.argv = {"/bin/true"}, .variables = {}, .scratch = scratch_, .visible = {}}, out.get());
  EXPECT_TRUE(absl::IsFailedPrecondition(pid.status())) << pid.status();
  EXPECT_THAT(std::string(pid.status().message()),
              HasSubstr("does not allow a build sandbox (mount of the sandbox's folder: No such file"));
}

}  // namespace
}  // namespace ingot::sandbox
