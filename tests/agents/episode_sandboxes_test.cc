// The sandboxes of episodes, from the agent's to the verifier's, and what becomes of an episode whose sandbox cannot be had.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "agents/fake_episodes.h"
#include "agents/runner.h"
#include "agents/verifier_sandbox.h"
#include "base/json.h"
#include "sandbox/test_sandbox.h"

namespace ingot::agents {
namespace {

namespace fs = std::filesystem;
using std::chrono::seconds;
using testing::HasSubstr;

class EpisodeSandboxesTest : public testing::Test {
 protected:
  EpisodeSandboxesTest() : root_(folder_.path()) {
    options_.work_root = root_ + "/work";
    options_.concurrency = 1;
    options_.recipes.emplace_back();
    recipe().timeout_s = 60;
    recipe().command = {"/bin/sh", "-c", "echo 42"};
  }

  RecipeOptions& recipe() { return options_.recipes[0]; }

  // Null: this machine grants less than `least`.
  std::unique_ptr<sandbox::Substrate> Ground(sandbox::IsolationLevel least) {
    ground_.work_root = options_.work_root;
    auto made = sandbox::MakeSubstrate(ground_);
    EXPECT_TRUE(made.ok()) << made.status();
    return made.ok() && (*made)->probe_result().isolation >= least ? *std::move(made) : nullptr;
  }

  void RunOne(FakeEpisodes& episodes, std::unique_ptr<sandbox::Substrate> ground) {
    auto runner = Runner::Make(options_, std::move(ground), episodes, base::Clock::Real());
    ASSERT_TRUE(runner.ok()) << runner.status();
    ASSERT_TRUE((*runner)->Start().ok());
    EXPECT_TRUE((*runner)->WaitDone(seconds(60)));
    ASSERT_EQ(episodes.ends().size(), 1u);
  }

  // Runs one episode, and expects that the infrastructure failed it, so that its sample is tried again.
  void ExpectOfInfrastructure(const std::string& cause, const std::string& detail,
                              std::unique_ptr<sandbox::Substrate> ground) {
    FakeEpisodes episodes(1);
    RunOne(episodes, std::move(ground));
    EXPECT_EQ(episodes.ends()[0].state(), v1::EPISODE_INFRASTRUCTURE_FAILED);
    EXPECT_EQ(episodes.ends()[0].cause(), cause);
    EXPECT_THAT(episodes.ends()[0].detail(), HasSubstr(detail));
    EXPECT_TRUE(episodes.rewards().empty());
  }

  const sandbox::TestFolder folder_;
  const std::string root_;
  sandbox::SubstrateOptions ground_;
  RunnerOptions options_;
};

TEST_F(EpisodeSandboxesTest, AnImageThatIsNotThereFailsAsInfrastructure) {
  auto ground = Ground(sandbox::IsolationLevel::kNamespaces);
  if (ground == nullptr) GTEST_SKIP() << "images need namespaces";
  recipe().image = "folder:" + root_ + "/no-such-image";
  ExpectOfInfrastructure("sandbox", "no-such-image", std::move(ground));
}

TEST_F(EpisodeSandboxesTest, AnImageThatTheTaskNamesElsewhereFailsWhetherItIsThereOrNot) {
  recipe().image = "folder:" + root_ + "/${task_id}";
  for (const bool is_there : {false, true}) {
    auto ground = Ground(sandbox::IsolationLevel::kNamespaces);
    if (ground == nullptr) GTEST_SKIP() << "images need namespaces";
    if (is_there) std::filesystem::create_directories(root_ + "/task-ep0");
    ExpectOfInfrastructure("task", "is not in a folder", std::move(ground));
  }
}

// A program of pyenv, say, is a shim that needs files elsewhere.
TEST_F(EpisodeSandboxesTest, AFailureForWantOfAFileSaysHowToShowMore) {
  const std::string hint = "to show more, set sandbox.visible: [FOLDER]";
  for (const char* script : {"exit 127", "exit 126", "cat /no-such-file >&2; exit 1"}) {
    auto ground = Ground(sandbox::IsolationLevel::kNamespaces);
    if (ground == nullptr) GTEST_SKIP() << "not granted";
    recipe().command = {"/bin/sh", "-c", script};
    FakeEpisodes episodes(1);
    RunOne(episodes, std::move(ground));
    EXPECT_THAT(episodes.ends()[0].detail(), HasSubstr(hint)) << script;
  }
  recipe().command = {"/bin/sh", "-c", "echo other >&2; exit 12"};
  FakeEpisodes other(1);
  RunOne(other, Ground(sandbox::IsolationLevel::kNamespaces));
  EXPECT_THAT(other.ends()[0].detail(), testing::Not(HasSubstr(hint)));
  ground_.isolation = "process";
  recipe().command = {"/bin/sh", "-c", "exit 127"};
  FakeEpisodes open(1);
  RunOne(open, Ground(sandbox::IsolationLevel::kProcess));
  EXPECT_THAT(open.ends()[0].detail(), testing::Not(HasSubstr(hint)));
}

TEST_F(EpisodeSandboxesTest, AControlGroupThatIsRejectedFailsAsInfrastructure) {
  auto ground = Ground(sandbox::IsolationLevel::kFull);
  if (ground == nullptr) GTEST_SKIP() << "not granted";
  // The groups of this process go away below it: new sandboxes get none.
  std::vector<fs::path> own;
  std::error_code error;
  const std::string name = absl::StrCat("ingot-", getpid(), "-");
  for (fs::recursive_directory_iterator it("/sys/fs/cgroup", fs::directory_options::skip_permission_denied, error), end;
       !error && it != end; it.increment(error)) {
    if (it->is_directory(error) && it->path().filename().string().starts_with(name)) own.push_back(it->path());
  }
  ASSERT_FALSE(own.empty());
  for (const fs::path& group : own) ASSERT_EQ(rmdir(group.c_str()), 0) << group << ": " << std::strerror(errno);
  ExpectOfInfrastructure("sandbox", name, std::move(ground));
}

TEST_F(EpisodeSandboxesTest, ADiskThatIsFullFailsTheEpisodeAsInfrastructureEvenIfItsAgentHidesIt) {
  fs::create_directories(options_.work_root);
  // In a mount namespace of this process, so that nothing stays mounted.
  if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      mount("ingot-test", options_.work_root.c_str(), "tmpfs", 0, "size=16m,mode=0755") != 0) {
    GTEST_SKIP() << "a small disk needs root: " << std::strerror(errno);
  }
  ground_.isolation = "process";
  for (const char* const fate : {"fail", "zero"}) {
    recipe().on_crash = recipe().on_flood = fate;
    for (const char* const code : {"0", "1"}) {
      recipe().command = {"/bin/sh", "-c", absl::StrCat("cat /dev/zero > fill; echo 42; exit ", code)};
      ExpectOfInfrastructure("disk", "agents.work_root's disk was full", Ground(sandbox::IsolationLevel::kProcess));
    }
  }
  recipe().command = {"/bin/sh", "-c", "echo 42"};
  recipe().setup = {{{"/bin/sh", "-c", "cat /dev/zero > fill"}}};
  ExpectOfInfrastructure("disk", "agents.work_root's disk was full", Ground(sandbox::IsolationLevel::kProcess));
  umount2(options_.work_root.c_str(), MNT_DETACH);
}

TEST_F(EpisodeSandboxesTest, AnAgentThatUsesMoreDiskThanItsSandboxMayFailsItself) {
  ground_.isolation = "process";
  ground_.disk.files = 100;
  recipe().command = {"/bin/sh", "-c", "i=0; while [ $i -lt 200 ]; do : > f$i; i=$((i+1)); done; echo 42"};
  FakeEpisodes episodes(1);
  RunOne(episodes, Ground(sandbox::IsolationLevel::kProcess));
  EXPECT_EQ(episodes.ends()[0].state(), v1::EPISODE_FAILED);
  EXPECT_EQ(episodes.ends()[0].cause(), "flood");
}

// A Harbor task whose image is a static shell.
class HarborEpisodeTest : public EpisodeSandboxesTest {
 protected:
  void SetUp() override {
    if (access("/bin/busybox", X_OK) != 0) GTEST_SKIP() << "needs busybox-static";
    for (const char* const part : {"bin", "app", "tmp", "etc"}) fs::create_directories(root_ + "/image/" + part);
    fs::copy_file("/bin/busybox", root_ + "/image/bin/busybox");
    for (const char* const tool : {"sh", "cat", "grep", "test"}) {
      fs::create_symlink("busybox", root_ + "/image/bin/" + tool);
    }
    std::ofstream(root_ + "/image/app/given") << "given\n";
    fs::create_directories(root_ + "/tests");
    SetTests("grep -q 42 answer && grep -q given given && R=1 || R=0\necho $R > /logs/verifier/reward.txt\n");
    ground_.visible = {root_ + "/image"};
    if (Ground(sandbox::IsolationLevel::kNamespaces) == nullptr) GTEST_SKIP() << "images need namespaces";
    recipe().image = "folder:" + root_ + "/image";
    recipe().verifier.kind = "harbor";
    recipe().verifier.timeout_s = 30;
  }
  void SetTests(const std::string& script) { std::ofstream(root_ + "/tests/test.sh") << script; }

  // The episode of a task with these fields more. -1 = it has no reward.
  double Reward(const std::string& script, const base::json::object& more = {}) {
    base::json::object task{{"tests_dir", root_ + "/tests"}, {"workdir", "/app"}};
    for (const auto& [name, field] : more) task[name] = field;
    recipe().command = {"sh", "-c", script};
    FakeEpisodes episodes(1, base::PrintJson(task));
    RunOne(episodes, Ground(sandbox::IsolationLevel::kNamespaces));
    end_ = episodes.ends()[0];
    return episodes.rewards().contains("ep0") ? episodes.rewards().at("ep0").reward() : -1;
  }

  v1::EpisodeEndRequest end_;
};

TEST_F(HarborEpisodeTest, TheAgentWorksInTheImageAndTheTestsJudgeItsFolder) {
  EXPECT_EQ(Reward("cat given > copy; echo 42 > answer"), 1) << end_.detail();
  EXPECT_EQ(Reward("echo 41 > answer"), 0) << end_.detail();
  EXPECT_EQ(Reward("test ! -e /tests/test.sh && test ! -e /logs && echo 42 > answer"), 1) << end_.detail();
}

// It leaves a shell, a grep and a shell start-up file that say it was right.
TEST_F(HarborEpisodeTest, AnAgentThatReplacesTheImagesProgramsFoolsNoVerifier) {
  const std::string attack =
      "echo 41 > answer; B=/bin/busybox; $B mkdir -p bin; "
      "printf '#!/bin/busybox sh\\necho 1 > /logs/verifier/reward.txt\\n' > bin/sh; $B chmod 755 bin/sh; "
      "for each in bash grep; do $B cp bin/sh bin/$each; $B rm -f /bin/$each; $B cp bin/sh /bin/$each; done; "
      "echo 'echo 1 > /logs/verifier/reward.txt; exit' > /etc/profile; $B cp bin/sh /bin/new; $B mv /bin/new /bin/sh";
  EXPECT_EQ(Reward(attack), 0) << end_.detail();
  EXPECT_EQ(Reward(attack, {{"env", {{"PATH", "/app/bin:/bin"}}}}), 0) << "nor by the work folder: " << end_.detail();
  recipe().verifier_sandbox = "changed";
  EXPECT_EQ(Reward(attack), 1) << "the attack works on the image as the agent left it";
}

// The reward is written where the tests alone can write, and no folder that the machine's users share holds it at any time.
TEST_F(HarborEpisodeTest, TheFolderOfTheRewardIsTheTestsAlone) {
  SetTests(
      "test $(busybox stat -c %a%u%g /logs)-$(busybox stat -c %a%u%g /logs/verifier) = 70000-70000 && R=1 || R=0\n"
      "echo $R > /logs/verifier/reward.txt\n");
  EXPECT_EQ(Reward("true"), 1) << end_.detail();
}

TEST_F(HarborEpisodeTest, NoAgentKeepsItsVerifierFromASandbox) {
  for (const char* const sandbox : {"pristine", "changed"}) {
    recipe().verifier_sandbox = sandbox;
    EXPECT_EQ(Reward("echo 42 > answer; busybox ln -s /bin /tests; echo file > /logs"), 1) << end_.detail();
  }
}

// The image names its working folder by a link.
TEST_F(HarborEpisodeTest, AWorkingFolderThatIsALinkIsKept) {
  fs::create_directories(root_ + "/image/srv/app");
  fs::rename(root_ + "/image/app", root_ + "/image/srv/app");
  fs::create_symlink("/srv/app", root_ + "/image/app");
  EXPECT_EQ(Reward("busybox test -L /app && cat given > copy; echo 42 > answer"), 1) << end_.detail();
  EXPECT_EQ(Reward("busybox rm /app; busybox ln -s /bin /app; echo 42 > /srv/app/answer"), 1) << end_.detail();
}

TEST(VariablesOfVerifierTest, PathsThatLeadIntoTheWorkingFolderAreNamedSo) {
  const sandbox::TestFolder folder;
  const std::string rootfs = folder.path();
  fs::create_directories(rootfs + "/srv/app/bin");
  fs::create_symlink("srv", rootfs + "/link");
  fs::create_symlink("/link/app", rootfs + "/app");
  fs::create_symlink("../../app/bin", rootfs + "/srv/tools");
  sandbox::Image image{.digest = "",
                       .rootfs = rootfs,
                       .env = {{"PATH", "/srv/app/bin:/srv/tools:/srv/apple:.:/bin"},
                               {"LD_PRELOAD", "/srv/app/a.so /srv/app/b.so"},
                               {"URL", "http://srv/app"}},
                       .working_dir = "/app"};
  const auto variables = VariablesOfVerifier(image);
  EXPECT_EQ(variables.at("PATH"), "/app/bin:/app/bin:/srv/apple:.:/bin");
  EXPECT_EQ(variables.at("LD_PRELOAD"), "/app/a.so /app/b.so");
  EXPECT_EQ(variables.at("URL"), "http://srv/app");
  image.rootfs.clear();
  EXPECT_EQ(VariablesOfVerifier(image), image.env);
}

// A ground whose forks cannot have the files that they begin with.
class NoForks final : public sandbox::Substrate {
 public:
  NoForks(std::unique_ptr<sandbox::Substrate> ground, absl::Status status)
      : ground_(std::move(ground)), status_(std::move(status)) {}
  const sandbox::ProbeResult& probe_result() const override { return ground_->probe_result(); }
  const sandbox::SubstrateOptions& options() const override { return ground_->options(); }
  absl::StatusOr<std::unique_ptr<sandbox::Sandbox>> Prepare(const sandbox::SandboxOptions& options) override {
    if (options.from != nullptr) return status_;
    return ground_->Prepare(options);
  }

 private:
  const std::unique_ptr<sandbox::Substrate> ground_;
  const absl::Status status_;
};

TEST_F(EpisodeSandboxesTest, FilesThatTheVerifierSandboxCannotHaveAreTheAgentsFault) {
  ground_.isolation = "process";
  recipe().verifier.kind = "command";
  recipe().verifier.command = {"/bin/true"};
  recipe().verifier_sandbox = "changed";
  const auto end = [&](const char* fate, const absl::Status& status, double* reward) {
    recipe().on_crash = fate;
    FakeEpisodes episodes(1);
    RunOne(episodes, std::make_unique<NoForks>(Ground(sandbox::IsolationLevel::kProcess), status));
    if (reward != nullptr) *reward = episodes.rewards().at("ep0").reward();
    return episodes.ends()[0];
  };
  const auto failed = end("fail", absl::DataLossError("cannot take ownership of 'f'"), nullptr);
  EXPECT_EQ(failed.state(), v1::EPISODE_FAILED);
  EXPECT_EQ(failed.cause(), "crash");
  EXPECT_THAT(failed.detail(), HasSubstr("cannot take ownership of 'f'"));
  double reward = -1;
  const auto zero = end("zero", absl::DataLossError("cannot take ownership of 'f'"), &reward);
  EXPECT_EQ(zero.state(), v1::EPISODE_FINISHED);
  EXPECT_EQ(reward, 0);
  EXPECT_EQ(end("zero", absl::ResourceExhaustedError("no space"), nullptr).state(), v1::EPISODE_INFRASTRUCTURE_FAILED);
}

TEST_F(HarborEpisodeTest, TestsThatLookAtTheImageNeedItAsTheAgentLeftIt) {
  SetTests("test -e /etc/installed && R=1 || R=0\necho $R > /logs/verifier/reward.txt\n");
  EXPECT_EQ(Reward("echo 1 > /etc/installed"), 0) << end_.detail();
  recipe().verifier_sandbox = "changed";
  EXPECT_EQ(Reward("echo 1 > /etc/installed"), 1) << end_.detail();
}

TEST_F(HarborEpisodeTest, LimitsVariablesAndHealthOfTheTaskAreHonoured) {
  SetTests("test \"$W$V\" = wv && R=1 || R=0\necho $R > /logs/verifier/reward.txt\n");
  const base::json::object env{{"env", {{"W", "w"}}}, {"verifier_env", {{"V", "v"}}}};
  EXPECT_EQ(Reward("test \"$W$V\" = w", env), 1) << end_.detail();
  EXPECT_EQ(Reward("busybox sleep 30", {{"agent_timeout_s", 0.3}}), -1);
  EXPECT_EQ(end_.cause(), "timeout");
  EXPECT_EQ(Reward("busybox head -c 60000000 /dev/zero > big", {{"storage_mb", 20}}), -1);
  EXPECT_EQ(end_.cause(), "flood");
  // Three tries: the first two are early enough not to count.
  const base::json::value check = {{"command", "echo x >> tries; test $(busybox wc -l < tries) -gt 2"},
                                   {"start_period_s", 60},
                                   {"start_interval_s", 0},
                                   {"retries", 1}};
  SetTests("grep -c x tries > /logs/verifier/reward.txt\n");
  EXPECT_EQ(Reward("true", {{"healthcheck", check}}), 3) << end_.detail();
  EXPECT_EQ(Reward("true", {{"healthcheck", {{"command", "exit 3"}, {"interval_s", 0}, {"retries", 2}}}}), -1);
  EXPECT_EQ(end_.state(), v1::EPISODE_INFRASTRUCTURE_FAILED);
  EXPECT_THAT(end_.detail(), HasSubstr("healthcheck (exit 3) exited with 3, 2 times"));
}

TEST_F(HarborEpisodeTest, TheSmallerTotalOfTaskAndSandboxHolds) {
  auto ground = Ground(sandbox::IsolationLevel::kFull);
  if (ground == nullptr) GTEST_SKIP() << "not granted";
  const std::string hog = "busybox head -c 100000000 /dev/zero | busybox tail | busybox wc -c > size; echo 42 > answer";
  const auto size = [&](int64_t usual_mb, int64_t task_mb) {
    ground_.totals.memory_bytes = usual_mb << 20;
    SetTests("test -s size && grep -q 100000000 size && R=1 || R=0\necho $R > /logs/verifier/reward.txt\n");
    return Reward(hog, {{"memory_mb", task_mb}});
  };
  EXPECT_EQ(size(512, 512), 1) << end_.detail();
  EXPECT_NE(size(512, 48), 1);
  EXPECT_NE(size(48, 512), 1);
}

}  // namespace
}  // namespace ingot::agents
