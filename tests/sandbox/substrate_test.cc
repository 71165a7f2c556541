// The probe of a machine, the choice of a grant, and the refusals of a start.
#include "sandbox/substrate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <functional>

#include "sandbox/test_sandbox.h"
#include "sandbox/uid_range.h"

namespace ingot::sandbox {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class SubstrateTest : public testing::Test {
 protected:
  SubstrateTest() {
    options_.work_root = folder_.path() + "/work";
    options_.isolation = "process";
  }

  std::string Path(const std::string& name) const { return folder_.path() + "/" + name; }
  std::string Script(const std::string& name) const {
    std::filesystem::create_directories(std::filesystem::path(Path(name)).parent_path());
    std::ofstream(Path(name)) << "#!/bin/sh\necho here\n";
    std::filesystem::permissions(Path(name), std::filesystem::perms::owner_all | std::filesystem::perms::others_read |
                                                 std::filesystem::perms::others_exec);
    return Path(name);
  }

  const TestFolder folder_;
  SubstrateOptions options_;
};

TEST_F(SubstrateTest, TheProbeResultIsWhatCommandsGet) {
  const auto substrate = MakeSubstrate(options_);
  ASSERT_TRUE(substrate.ok()) << substrate.status();
  const ProbeResult& probe_result = (*substrate)->probe_result();
  EXPECT_EQ(probe_result.isolation, IsolationLevel::kProcess);
  EXPECT_THAT(probe_result.Describe(), HasSubstr("isolation level process: "));
  EXPECT_EQ(probe_result.own_uid, geteuid() == 0 && probe_result.rejected.empty());
  auto sandbox = (*substrate)->Prepare();
  ASSERT_TRUE(sandbox.ok()) << sandbox.status();
  const auto outcome = (*sandbox)->Run({.argv = {"/bin/sh", "-c", "id -u; echo $$; ls -d /proc/[0-9]* | wc -l"},
                                        .env = {},
                                        .working_dir = "",
                                        .stdin_text = ""},
                                       Limits{}, nullptr);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  int64_t uid = 0, pid = 0, processes = 0;
  ASSERT_EQ(std::sscanf(outcome->out.c_str(), "%ld %ld %ld", &uid, &pid, &processes), 3) << outcome->out;
  if (probe_result.own_uid) {
    EXPECT_GE(uid, probe_result.first_uid);
  } else {
    EXPECT_EQ(uid, geteuid());
  }
  EXPECT_TRUE(!probe_result.pid_namespace || pid <= 3) << pid;  // one process removes what an earlier room left
  EXPECT_TRUE(!probe_result.private_proc || processes <= 5) << processes;
}

TEST_F(SubstrateTest, EachSandboxHasAUidThatNoOtherHas) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  const auto uid_in = [](Sandbox& sandbox) {
    const Command command{.argv = {"id", "-u"}, .env = {}, .working_dir = "", .stdin_text = ""};
    return sandbox.Run(command, Limits{}, nullptr).value().out;
  };
  options_.agent_uid = "own";
  const auto one = MakeSubstrate(options_), other = MakeSubstrate(options_);
  ASSERT_TRUE(one.ok()) << one.status();
  ASSERT_TRUE(other.ok()) << other.status();
  auto first = (*one)->Prepare().value(), second = (*one)->Prepare().value(), third = (*other)->Prepare().value();
  const std::string uid = uid_in(*first);
  EXPECT_NE(uid, uid_in(*second));
  EXPECT_NE(uid, uid_in(*third)) << "of another run";
  EXPECT_NE(uid_in(*second), uid_in(*third));
  first.reset();
  EXPECT_EQ(uid_in(*(*one)->Prepare().value()), uid) << "a sandbox that is gone gives its uid back";
}

TEST_F(SubstrateTest, TheUidOfASandboxHasANameAndAHome) {
  const auto substrate = MakeSubstrate(options_);
  ASSERT_TRUE(substrate.ok()) << substrate.status();
  if (!(*substrate)->probe_result().own_uid || !(*substrate)->probe_result().mount_namespace)
    GTEST_SKIP() << "not granted";
  const auto sandbox = (*substrate)->Prepare().value();
  const auto outcome = sandbox->Run({.argv = {"sh", "-c", "id -un; echo ~agent; stat -c %U /"},
                                     .env = {},
                                     .working_dir = sandbox->work(),
                                     .stdin_text = ""},
                                    Limits{}, nullptr);
  EXPECT_EQ(outcome->out, absl::StrCat("agent\n", sandbox->home(), "\nroot\n")) << outcome->err;
}

TEST_F(SubstrateTest, AWorkRootOfSomebodyElseIsRejected) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  std::filesystem::create_directories(options_.work_root);
  ASSERT_EQ(chown(options_.work_root.c_str(), 12345, 12345), 0);
  EXPECT_THAT(std::string(MakeSubstrate(options_).status().message()), HasSubstr("belongs to uid 12345"));
}

TEST_F(SubstrateTest, AFolderThatOthersMaySwapIsNoWorkRoot) {
  const auto why = [&] { return std::string(MakeSubstrate(options_).status().message()); };
  std::filesystem::create_directories(options_.work_root);
  ASSERT_EQ(chmod(options_.work_root.c_str(), 0777), 0);
  EXPECT_THAT(why(), AllOf(HasSubstr("is writable by other users"), HasSubstr("chmod go-w " + options_.work_root)));
  ASSERT_EQ(chmod(options_.work_root.c_str(), 0755), 0);
  options_.images = Path("images");
  std::filesystem::create_directories(options_.images);
  ASSERT_EQ(chmod(options_.images.c_str(), 0757), 0);
  EXPECT_THAT(why(), HasSubstr("agents.image_store " + options_.images + " is writable by other users"));
  if (geteuid() != 0) GTEST_SKIP() << "the rest needs root";
  std::filesystem::remove_all(options_.images);
  std::filesystem::create_directory_symlink(options_.work_root, options_.images);
  ASSERT_EQ(lchown(options_.images.c_str(), 12345, 12345), 0);
  EXPECT_THAT(why(), HasSubstr("belongs to uid 12345"));
}

// Names in it would lead other users to folders of sandboxes, and a snapshot of one agent's files is not another's.
TEST_F(SubstrateTest, NobodyElseListsTheWorkRootOrEntersASnapshot) {
  const auto substrate = MakeSubstrate(options_);
  ASSERT_TRUE(substrate.ok()) << substrate.status();
  SandboxOptions wish;
  wish.takes_snapshots = true;
  const auto sandbox = (*substrate)->Prepare(wish);
  ASSERT_TRUE(sandbox.ok()) << sandbox.status();
  const auto snapshot = (*sandbox)->TakeSnapshot();
  ASSERT_TRUE(snapshot.ok()) << snapshot.status();
  struct stat info;
  ASSERT_EQ(stat(options_.work_root.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 066, 0u);
  int folders = 0;
  for (const auto& each : std::filesystem::directory_iterator(options_.work_root)) {
    if (!each.path().filename().string().starts_with("live-")) continue;
    ASSERT_EQ(stat(each.path().c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 027, 0u) << each.path();
    ++folders;
  }
  EXPECT_EQ(folders, 2);
}

TEST_F(SubstrateTest, MoreThanTheMachineGivesIsRejectedWithTheProbeResult) {
  options_.agent_uid = "shared";  // agents that are root on the machine have no stronger wall
  for (const char* isolation : {"landlock", "namespaces", "full"}) {
    options_.require = isolation;
    const absl::Status rejected = MakeSubstrate(options_).status();
    EXPECT_EQ(rejected.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(rejected.message()), AllOf(HasSubstr(absl::StrCat("sandbox.require is ", isolation)),
                                                       HasSubstr("isolation level process: ")));
  }
  options_.require = "process";
  EXPECT_THAT(std::string(MakeSubstrate(options_).status().message()),
              HasSubstr("it must be one of any, none, landlock, namespaces, full"));
}

TEST_F(SubstrateTest, AProgramThatOnlyRootReachesIsNamed) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  const std::string agent = Script("closed/deep/agent.sh");
  chmod(Path("closed").c_str(), 0700);
  options_.agent_uid = "own";
  for (const std::vector<std::string>& argv : {std::vector<std::string>{agent}, {"/bin/sh", agent, "x"}}) {
    options_.programs = {{"recipe 'a' command", argv, ""}};
    const absl::Status rejected = MakeSubstrate(options_).status();
    EXPECT_EQ(rejected.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(rejected.message()),
                AllOf(HasSubstr("recipe 'a' command"), HasSubstr(agent), HasSubstr(Path("closed") + " has mode 0700")));
  }
  options_.agent_uid = "auto";
  const auto shared = MakeSubstrate(options_);
  ASSERT_TRUE(shared.ok()) << shared.status();
  EXPECT_FALSE((*shared)->probe_result().own_uid);
  EXPECT_THAT((*shared)->probe_result().Describe(), AllOf(HasSubstr("agents share uid 0"), HasSubstr("has mode 0700")));
  const auto sandbox = (*shared)->Prepare().value();
  EXPECT_EQ(sandbox->Run({.argv = {agent}, .env = {}, .working_dir = "", .stdin_text = ""}, Limits{}, nullptr)->out,
            "here\n");

  options_.agent_uid = "own";
  options_.programs = {{"recipe 'a' command", {Script("open/agent.sh"), "/no/such/file"}, ""},
                       {"recipe 'b' command", {"sh"}, "/usr/bin:/bin"},
                       {"recipe 'c' command", {"no-such-program"}, ""},
                       {"recipe 'd' command", {""}, ""}};
  EXPECT_TRUE(MakeSubstrate(options_).ok()) << MakeSubstrate(options_).status();
}

TEST_F(SubstrateTest, AProgramAmongHiddenPathsIsRejected) {
  const std::string agent = Script("runs/agent.sh");
  options_.hidden = {Path("runs")};
  options_.programs = {{"recipe 'a' command", {"/bin/sh", agent}, ""}};
  const absl::Status rejected = MakeSubstrate(options_).status();
  EXPECT_EQ(rejected.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(rejected.message()), AllOf(HasSubstr("recipe 'a' command"), HasSubstr(agent)));
  options_.hidden = {Path("run")};
  EXPECT_TRUE(MakeSubstrate(options_).ok()) << "another name with the same beginning";
}

TEST_F(SubstrateTest, HiddenPathsAreEmptyInSandboxesAndWholeOutside) {
  std::filesystem::create_directories(Path("runs/run"));
  std::ofstream(Path("tasks.jsonl")) << "answer";
  options_.hidden = {Path("runs"), Path("tasks.jsonl"), Path("not there")};
  const auto substrate = MakeSubstrate(options_);
  ASSERT_TRUE(substrate.ok()) << substrate.status();
  if (!(*substrate)->probe_result().mount_namespace) GTEST_SKIP() << "this machine grants no mount namespace";
  const auto sandbox = (*substrate)->Prepare().value();
  const std::string script =
      absl::StrCat("ls ", Path("runs"), "; cat ", Path("tasks.jsonl"), "; touch ", Path("runs/x"), " || echo refused");
  const Command command{.argv = {"/bin/sh", "-c", script}, .env = {}, .working_dir = "", .stdin_text = ""};
  EXPECT_EQ(sandbox->Run(command, Limits{}, nullptr)->out, "refused\n");
  std::string line;
  std::ifstream(Path("tasks.jsonl")) >> line;
  EXPECT_EQ(line, "answer");
  EXPECT_TRUE(std::filesystem::exists(Path("runs/run")));
}

TEST_F(SubstrateTest, AWorkRootThatCannotBeMadeIsNamed) {
  std::ofstream(Path("file")) << "x";
  options_.work_root = Path("file/work");
  EXPECT_THAT(std::string(MakeSubstrate(options_).status().message()),
              AllOf(HasSubstr("agents.work_root"), HasSubstr(options_.work_root)));
}

TEST_F(SubstrateTest, SharedAgentsKeepTheCapabilitiesOfIngot) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  const Command command{.argv = {"sh", "-c", "grep -E 'CapEff|NoNewPrivs' /proc/self/status | cut -f2"},
                        .env = {},
                        .working_dir = "",
                        .stdin_text = ""};
  options_.agent_uid = "shared";
  const auto shared = MakeSubstrate(options_);
  ASSERT_TRUE(shared.ok()) << shared.status();
  EXPECT_THAT((*shared)->Prepare().value()->Run(command, Limits{}, nullptr)->out,
              testing::Not(HasSubstr("00000000\n")));
  options_.agent_uid = "auto";
  const auto own = MakeSubstrate(options_);
  EXPECT_EQ((*own)->Prepare().value()->Run(command, Limits{}, nullptr)->out, "0000000000000000\n1\n");
}

TEST_F(SubstrateTest, OptionErrorsNameTheOption) {
  options_.agent_uid = "mine";
  EXPECT_THAT(std::string(options_.Validate().message()), HasSubstr("it must be one of auto, own, shared"));
  options_.agent_uid = "auto";
  options_.uid_base = 0;
  EXPECT_THAT(std::string(options_.Validate().message()), HasSubstr("uid_base is 0"));
}

TEST(DiskWatchTest, AFileSystemWithoutALimitIsNeverFull) {
  struct statvfs info;
  ASSERT_EQ(statvfs("/proc", &info), 0);
  ASSERT_EQ(info.f_blocks, 0u);
  EXPECT_FALSE(IsFull("/proc"));
  EXPECT_FALSE(DiskWatch("/proc/self/fd", {}).FaultAtEnd().has_value());
}

TEST(UidRangeTest, NoUidIsHandedOutTwiceWhileItIsTaken) {
  const TestFolder folder;
  auto one = UidRange::Open(1000, folder.path() + "/uids").value();
  const auto two = UidRange::Open(1000, folder.path() + "/uids").value();
  EXPECT_EQ(one->Acquire().value(), 1000);
  EXPECT_EQ(two->Acquire().value(), 1001);
  EXPECT_EQ(one->Acquire().value(), 1002);
  one->Give(1000);
  EXPECT_EQ(two->Acquire().value(), 1003) << "the other one's lock stays";
  EXPECT_EQ(one->Acquire().value(), 1000);
  one.reset();
  const auto three = UidRange::Open(1000, folder.path() + "/uids").value();
  EXPECT_EQ(three->Acquire().value(), 1000) << "locks go with their owner";
  EXPECT_EQ(three->Acquire().value(), 1002);
}

TEST(UidRangeTest, ALinkInPlaceOfTheLockFileIsRejected) {
  const TestFolder folder;
  std::filesystem::create_symlink("/etc/passwd", folder.path() + "/uids");
  EXPECT_FALSE(UidRange::Open(1000, folder.path() + "/uids").ok());
}

}  // namespace
}  // namespace ingot::sandbox
