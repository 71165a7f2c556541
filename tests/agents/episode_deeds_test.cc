// What an agent does to its own files is its own failure. A deed that counted as the infrastructure's would spare a failing agent
// its reward, and have its sample tried again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "agents/fake_episodes.h"
#include "agents/runner.h"
#include "base/json.h"
#include "sandbox/test_sandbox.h"

namespace ingot::agents {
namespace {

namespace fs = std::filesystem;
using sandbox::As;
using sandbox::Users;
using std::chrono::seconds;

class EpisodeDeedsTest : public testing::Test {
 protected:
  EpisodeDeedsTest() {
    options_.concurrency = 4;
    options_.recipes.emplace_back();
    recipe().timeout_s = 30;
    recipe().verifier.kind = "command";
    recipe().verifier.timeout_s = 0.5;
  }

  RecipeOptions& recipe() { return options_.recipes[0]; }

  std::unique_ptr<sandbox::Substrate> Ground(const std::string& isolation) {
    ground_.work_root = options_.work_root = absl::StrCat(folder_.path(), "/work-", geteuid());
    ground_.isolation = isolation;
    auto made = sandbox::MakeSubstrate(ground_);
    EXPECT_TRUE(made.ok()) << made.status();
    return made.ok() ? *std::move(made) : nullptr;
  }

  // Runs an episode for each deed. None of them may be the infrastructure's failure, and none earns anything.
  void ExpectOfAgents(const std::vector<std::string>& deeds, std::unique_ptr<sandbox::Substrate> ground,
                      const std::string& where, const std::string& payload = "{}") {
    std::string script = "echo 42\ncase $INGOT_EPISODE_ID in\n";  // without an answer no command judges
    for (size_t i = 0; i < deeds.size(); ++i) absl::StrAppend(&script, "ep", i, ")\n", deeds[i], "\n;;\n");
    recipe().command = {"/bin/sh", "-c", script + "esac\nexit 0"};
    FakeEpisodes episodes(static_cast<int>(deeds.size()), payload);
    auto runner = Runner::Make(options_, std::move(ground), episodes, base::Clock::Real());
    ASSERT_TRUE(runner.ok()) << runner.status();
    ASSERT_TRUE((*runner)->Start().ok());
    ASSERT_TRUE((*runner)->WaitDone(seconds(120)));
    ASSERT_EQ(episodes.ends().size(), deeds.size());
    for (const v1::EpisodeEndRequest& end : episodes.ends()) {
      const std::string what =
          absl::StrCat(where, ": ", deeds[std::stoul(end.episode_id().substr(2))], "\n", end.detail());
      if (end.state() == v1::EPISODE_FINISHED) {
        ASSERT_TRUE(episodes.rewards().contains(end.episode_id())) << what;
        EXPECT_EQ(episodes.rewards().at(end.episode_id()).reward(), 0) << what;
      } else {
        EXPECT_EQ(end.state(), v1::EPISODE_FAILED) << what;
        EXPECT_THAT(end.cause(), testing::AnyOf("crash", "timeout", "flood")) << what;
      }
    }
  }

  // An image whose programs are a static shell. Empty: this machine has none.
  std::string MakeImage() {
    if (access("/bin/busybox", X_OK) != 0) return "";
    std::string image = folder_.path() + "/image";
    for (const char* const part : {"bin", "srv/app", "tmp", "etc"}) fs::create_directories(image + "/" + part);
    fs::copy_file("/bin/busybox", image + "/bin/busybox");
    for (const char* const tool : {"sh", "cat", "grep", "test", "chmod", "rm", "mkdir", "ln", "mkfifo", "mv"}) {
      fs::create_symlink("busybox", image + "/bin/" + tool);
    }
    ground_.visible = {image};
    recipe().image = "folder:" + image;
    return image;
  }

  const sandbox::TestFolder folder_;
  sandbox::SubstrateOptions ground_;
  RunnerOptions options_;
};

// Deeper than a path may be long.
const std::string kDeep =
    "d=$(printf %0200d 0); i=0; while [ $i -lt 60 ]; do mkdir $d && cd $d || exit 0; i=$((i+1)); done";

std::vector<std::string> Deeds() {
  return {
      "echo 41 > answer; chmod 0 .",
      "echo 41 > answer; chmod 0 answer",
      "true",
      "mkdir answer; chmod 0 answer",
      "mkfifo answer",
      "ln -s answer answer",
      "ln -s /dev/zero answer",
      "ln -s \"$PWD\" answer",
      "head -c 3000000 /dev/zero > answer",
      "chmod 0 .. 2> none; rm -rf ../work; ln -s /etc ../work",
      "mv ../work ../elsewhere",
      "cd /; rm -rf \"$OLDPWD\"; : > \"$OLDPWD\"",
      "chmod 0 \"$HOME\" \"$TMPDIR\" .",
      "rm -rf \"$HOME\" \"$TMPDIR\"; ln -s /etc \"$HOME\"; : > \"$TMPDIR\"",
      "umask 777; mkdir -p a/b c; : > d; echo 41 > answer",
      "n=$(printf %0255d 0); : > $n; mkdir $(printf %0254d 1); ln $n answer",
      "rm check; mkfifo check",
      "chmod 0 check",
      "kill -9 $PPID; kill -9 -1",
      kDeep,
  };
}

TEST_F(EpisodeDeedsTest, WhatAnAgentDoesToItsFilesIsItsOwnFailure) {
  // The recipe's own script judges: an agent may replace it, too.
  recipe().files = {{"check", "#!/bin/sh\nexec test \"$(cat answer)\" = 42\n"}};
  recipe().verifier.command = {"./check"};
  for (const uid_t user : Users()) {
    for (const char* const isolation : {"auto", "process"}) {
      for (const char* const sandbox : {"agent", "changed"}) {
        As(user, [&] {
          recipe().verifier_sandbox = sandbox;
          auto ground = Ground(isolation);
          ASSERT_NE(ground, nullptr);
          const std::string where =
              absl::StrCat("uid ", user, ", ", ground->probe_result().Describe(), ", sandbox ", sandbox);
          ExpectOfAgents(Deeds(), std::move(ground), where);
        });
      }
    }
  }
}

TEST_F(EpisodeDeedsTest, AnAnswerThatCannotBeReadIsNone) {
  recipe().verifier.kind = "exact";
  recipe().verifier.expected = "42";
  recipe().answer_from = "file";
  recipe().answer_file = "answer";
  for (const uid_t user : Users()) {
    As(user, [&] { ExpectOfAgents(Deeds(), Ground("auto"), absl::StrCat("uid ", user)); });
  }
}

// A task whose image is a static shell.
TEST_F(EpisodeDeedsTest, WhatAnAgentDoesToItsImageIsItsOwnFailure) {
  const std::string tests = folder_.path() + "/tests";
  if (MakeImage().empty()) GTEST_SKIP() << "needs busybox-static";
  fs::create_directories(tests);
  std::ofstream(tests + "/test.sh") << "test -x prog && ./prog\n"
                                       "grep -q 42 answer && R=1 || R=0\n"
                                       "test -s /logs/verifier/reward.txt || echo $R > /logs/verifier/reward.txt\n";
  const std::vector<std::string> deeds = {
      "chmod 0 .",
      "chmod 0 /",
      "chmod 0 /srv",
      "chmod 0 /bin",
      "rm -rf /bin",
      "rm /bin/sh; mkdir /bin/sh",
      "rm /bin/busybox; echo none > /bin/busybox",
      "cd /; rm -rf /srv/app; echo file > /srv/app",
      "cd /; rm -rf /srv; ln -s /etc /srv",
      "cd /; mv /srv /moved; mkfifo /srv",
      "mkfifo answer",
      "ln -s answer answer",
      "rm -rf /tests /logs /tmp/*; mkfifo /tests; ln -s /srv /logs",
      "mkdir -p /logs/verifier/reward.txt; chmod 0 /logs/verifier /logs",
      "mkdir d; cd d; chmod 0 ..",
      "printf '#!/bin/sh\\necho none > /logs/verifier/reward.txt\\n' > prog; chmod 755 prog",
      "printf '#!/bin/sh\\nmkdir /logs/verifier/reward.json; chmod 0 /logs/verifier\\n' > prog; chmod 755 prog",
      "printf '#!/bin/sh\\ncat /dev/zero > /logs/verifier/reward.txt & busybox sleep 0.2; kill $!\\n' > prog; chmod "
      "755 prog",
      "printf '#!/bin/sh\\nrm -rf /logs/verifier; ln -s /etc /logs/verifier\\n' > prog; chmod 755 prog",
      kDeep,
  };
  recipe().verifier.kind = "harbor";
  recipe().verifier.timeout_s = 2;
  const base::json::object task{{"tests_dir", tests}, {"workdir", "/srv/app"}};
  for (const uid_t user : Users()) {
    for (const char* const sandbox : {"pristine", "changed"}) {
      As(user, [&] {
        recipe().verifier_sandbox = sandbox;
        auto ground = Ground("auto");
        if (ground == nullptr || ground->probe_result().isolation < sandbox::IsolationLevel::kNamespaces ||
            !ground->probe_result().layers)
          return;
        const std::string where =
            absl::StrCat("uid ", user, ", ", ground->probe_result().Describe(), ", sandbox ", sandbox);
        ExpectOfAgents(deeds, std::move(ground), where, base::PrintJson(task));
      });
    }
  }
}

// It judges none of them, and is not to be taken for a broken command.
TEST_F(EpisodeDeedsTest, AVerifierWithoutItsShellIsTheFailureOfHoweverManyAgents) {
  if (MakeImage().empty()) GTEST_SKIP() << "needs busybox-static";
  recipe().verifier.command = {"/bin/sh", "-c", "exit 0"};
  recipe().on_crash = "zero";
  if (geteuid() != 0) GTEST_SKIP() << "only agents of root's runner own the image's programs";
  for (const char* const sandbox : {"agent", "changed"}) {
    recipe().verifier_sandbox = sandbox;
    auto ground = Ground("auto");
    if (ground == nullptr || ground->probe_result().isolation < sandbox::IsolationLevel::kNamespaces ||
        !ground->probe_result().layers) {
      GTEST_SKIP() << "needs an image in layers";
    }
    const std::string where = absl::StrCat(ground->probe_result().Describe(), ", sandbox ", sandbox);
    ExpectOfAgents(std::vector<std::string>(12, "rm /bin/sh"), std::move(ground), where);
  }
}

// Nothing is left for the verifier, whose own few bytes break the limit of the sandbox.
TEST_F(EpisodeDeedsTest, AVerifierOnADiskThatTheAgentFilledIsTheFailureOfHoweverManyAgents) {
  ground_.disk.bytes = 8 << 20;
  recipe().verifier.timeout_s = 30;
  recipe().verifier.command = {"/bin/sh", "-c", "head -c 3000000 /dev/zero > \"$TMPDIR/own\""};
  recipe().on_crash = "zero";
  for (const uid_t user : Users()) {
    As(user, [&] {
      ExpectOfAgents(std::vector<std::string>(12, "head -c 7000000 /dev/zero > full"), Ground("auto"),
                     absl::StrCat("uid ", user));
    });
  }
}

// A command that never judges anything is broken itself, and the run is to end with its reason.
TEST_F(EpisodeDeedsTest, ACommandThatJudgesNoEpisodeIsTheVerifiersFault) {
  recipe().verifier.command = {"/bin/sh", "-c", "test -e good && exit 0; exit 7"};
  recipe().verifier.timeout_s = 30;
  const auto causes = [&](const std::string& first, int32_t concurrency) {
    options_.concurrency = concurrency;
    recipe().command = {"/bin/sh", "-c", "test $INGOT_EPISODE_ID = ep0 && " + first + "; echo 42"};
    FakeEpisodes episodes(10);
    auto runner = Runner::Make(options_, Ground("process"), episodes, base::Clock::Real());
    EXPECT_TRUE(runner.ok() && (*runner)->Start().ok() && (*runner)->WaitDone(seconds(60)));
    std::map<std::string, int> counts;
    for (const v1::EpisodeEndRequest& end : episodes.ends()) ++counts[end.cause()];
    return counts;
  };
  EXPECT_EQ(causes("false", 10), (std::map<std::string, int>{{"crash", 8}, {"verifier", 2}}));
  EXPECT_EQ(causes(": > good", 1), (std::map<std::string, int>{{"", 1}, {"crash", 9}}));
}

}  // namespace
}  // namespace ingot::agents
