// Snapshots of running episodes, trunks that are ended at their fork, and leaves on the files that they left.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <future>
#include <string>
#include <thread>

#include "agents/fake_episodes.h"
#include "agents/runner.h"
#include "agents/send_files.h"
#include "sandbox/test_sandbox.h"

namespace ingot::agents {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;
using testing::StartsWith;

class BranchingTest : public testing::Test {
 protected:
  BranchingTest() : root_(folder_.path()) {
    options_.work_root = root_ + "/work";
    options_.concurrency = 1;
    options_.backoff_initial_s = 0.001;
    RecipeOptions& recipe = options_.recipes.emplace_back();
    recipe.timeout_s = 60;
    recipe.resumes = true;
    recipe.setup = {{.command = {"/bin/sh", "-c", "echo set up >> setup.log"}}};
    recipe.cleanup = {{.command = {"/bin/sh", "-c", "echo \"$INGOT_EPISODE_ID\" >> " + root_ + "/cleaned"}}};
    recipe.files = {{"key.txt", "${api_key} in ${workdir}"}, {"task.txt", "${task.text}"}};
    // The first agent leaves files, says that it waits, and waits. One on a fork answers if it finds all of them.
    recipe.command = {"/bin/sh", "-c", "root=" + root_ + R"sh(
      if [ -z "$INGOT_FORK" ]; then
        echo half > state; echo home > "$HOME/h"; echo changed > task.txt; echo gone > "$TMPDIR/t"; : > $root/waits
        while [ ! -e $root/go ]; do sleep 0.02; done
        echo 42; exit
      fi
      [ "$INGOT_FORK" = ep0.1 ] && [ "$(cat state)" = half ] && [ "$(cat "$HOME/h")" = home ] &&
      [ "$(cat task.txt)" = changed ] && [ "$(cat key.txt)" = "$OPENAI_API_KEY in $PWD" ] &&
      [ "$(cat setup.log)" = "set up" ] && [ ! -e "$TMPDIR/t" ] && echo leaf >> state && echo 42
    )sh"};
  }

  std::unique_ptr<Runner> Start(FakeEpisodes& episodes) {
    sandbox::SubstrateOptions options;
    options.work_root = options_.work_root;
    options.isolation = isolation_;
    options.agent_uid = agent_uid_;
    auto substrate = sandbox::MakeSubstrate(options);
    EXPECT_TRUE(substrate.ok()) << substrate.status();
    auto runner = Runner::Make(options_, *std::move(substrate), episodes, base::Clock::Real());
    EXPECT_TRUE(runner.ok()) << runner.status();
    EXPECT_TRUE((*runner)->Start().ok());
    return *std::move(runner);
  }
  void AwaitFile(const std::string& name) const {
    for (int i = 0; i < 4000 && !fs::exists(root_ + "/" + name); ++i) std::this_thread::sleep_for(milliseconds(5));
    EXPECT_TRUE(fs::exists(root_ + "/" + name)) << name;
  }

  const sandbox::TestFolder folder_;
  const std::string root_;
  std::string isolation_ = "process", agent_uid_ = "auto";
  RunnerOptions options_;
};

// The first episode is a trunk of group 5, others are its leaves.
void TrunkFirst(const v1::EpisodeOpenRequest& request, v1::EpisodeOpenResponse& response) {
  EXPECT_TRUE(request.can_fork());
  response.mutable_ref()->set_group_id(5);
  if (response.episode_id() == "ep0") return response.set_fork_at(1);
  response.mutable_fork()->set_episode_id("ep0");
  response.mutable_fork()->set_snapshot_id("ep0.1");
}

TEST_F(BranchingTest, LeavesBeginOnTheFilesThatTheirTrunkLeft) {
  FakeEpisodes episodes(4);
  episodes.change = TrunkFirst;
  const auto runner = Start(episodes);
  AwaitFile("waits");
  episodes.Ask("ep0", "ep0.1", /*ends=*/true);
  ASSERT_TRUE(runner->WaitDone(seconds(60)));
  ASSERT_EQ(episodes.ends().size(), 4u);
  EXPECT_EQ(episodes.ends()[0].state(), v1::EPISODE_FORKED);
  EXPECT_FALSE(episodes.rewards().contains("ep0"));
  for (size_t i = 1; i < 4; ++i) {
    EXPECT_EQ(episodes.ends()[i].state(), v1::EPISODE_FINISHED) << episodes.ends()[i].detail();
    EXPECT_EQ(episodes.rewards().at(episodes.ends()[i].episode_id()).reward(), 1) << episodes.ends()[i].detail();
  }
  std::ifstream cleaned(root_ + "/cleaned");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(cleaned), {}), "ep1\nep2\nep3\n")
      << "not where the trunk forked";
  const RunnerStats stats = runner->Stats();
  EXPECT_EQ(stats.forked, 1);
  EXPECT_EQ(stats.finished, 3);
  EXPECT_EQ(stats.failed, 0);
  EXPECT_EQ(stats.snapshots, 1);
}

// A second try would end likewise.
TEST_F(BranchingTest, ATrunkThatLeavesNothingToForkFailsItself) {
  agent_uid_ = "shared";
  options_.recipes[0].command = {"/bin/sh", "-c",
                                 "rm -rf \"$PWD\"; : > " + root_ + "/waits; while :; do sleep 0.05; done"};
  FakeEpisodes episodes(1);
  episodes.change = TrunkFirst;
  const auto runner = Start(episodes);
  AwaitFile("waits");
  episodes.Ask("ep0", "ep0.1", /*ends=*/true);
  ASSERT_TRUE(runner->WaitDone(seconds(60)));
  ASSERT_EQ(episodes.ends().size(), 1u);
  EXPECT_EQ(episodes.ends()[0].state(), v1::EPISODE_FAILED);
  EXPECT_EQ(episodes.ends()[0].cause(), "crash") << episodes.ends()[0].detail();
}

TEST_F(BranchingTest, AnOwnersSnapshotStopsTheAgentOnlyForAMoment) {
  FakeEpisodes episodes(3);
  episodes.change = [](const auto&, v1::EpisodeOpenResponse& response) {
    response.mutable_ref()->set_group_id(5);
    if (response.episode_id() == "ep0") return;
    response.mutable_fork()->set_snapshot_id("ep0.1");
    response.set_oldest_group(response.episode_id() == "ep2" ? 6 : 5);
  };
  const auto runner = Start(episodes);
  AwaitFile("waits");
  for (const char* episode : {"ep0", "ep0", "unknown"}) episodes.Ask(episode, std::string(episode) + ".1", false);
  const auto taken = episodes.AwaitTaken(3);
  ASSERT_EQ(taken.size(), 3u);
  EXPECT_EQ(taken[0].error() + taken[1].error(), "") << "asked again, it is the same snapshot";
  EXPECT_THAT(taken[2].error(), HasSubstr("no agent of the episode runs here"));
  // Somebody else asks for the files.
  for (const auto& [transfer, snapshot] : {std::pair("t1", "ep0.1"), {"t2", "unknown.1"}}) {
    episodes.Ask("other", snapshot, false, transfer);
  }
  const auto [archive, error] = episodes.AwaitFiles("t1");
  EXPECT_EQ(error, "");
  for (const char* part : {"work/state", "half\n", "home/h", "home\n"}) EXPECT_THAT(archive, HasSubstr(part));
  EXPECT_THAT(episodes.AwaitFiles("t2").second, HasSubstr("does not hold the snapshot unknown.1"));
  std::ofstream(root_ + "/go").close();
  ASSERT_TRUE(runner->WaitDone(seconds(60)));
  ASSERT_EQ(episodes.ends().size(), 3u);
  EXPECT_EQ(episodes.rewards().at("ep0").reward(), 1) << "it went on";
  EXPECT_EQ(episodes.rewards().at("ep1").reward(), 1);
  // The third one was told that its group needs no snapshot any more.
  EXPECT_EQ(episodes.ends()[2].state(), v1::EPISODE_INFRASTRUCTURE_FAILED);
  EXPECT_EQ(episodes.ends()[2].cause(), "snapshot");
  EXPECT_EQ(runner->Stats().snapshots, 0);
  EXPECT_TRUE(fs::is_empty(options_.work_root));
}

TEST_F(BranchingTest, AReaderWithoutAFreeSenderIsToldAtOnce) {
  FakeEpisodes episodes(1);
  std::promise<void> go;
  const std::shared_future<void> gone = go.get_future().share();
  std::atomic<int> rejected = 0;
  episodes.before_files = [&, gone](const v1::SnapshotFilesPart& part) {
    part.error().ends_with("try again later") ? (void)++rejected : gone.wait();
  };
  const auto runner = Start(episodes);
  for (const char* const transfer : {"t0", "t1", "t2", "t3", "t0", "t4"})
    episodes.Ask("other", "ep9.1", false, transfer);
  EXPECT_THAT(episodes.AwaitFiles("t4").second, HasSubstr("sends files to 4 readers, its limit: try again later"));
  EXPECT_EQ(rejected, 1) << "an ask that is given again is no other reader";
  go.set_value();
  for (const char* const transfer : {"t0", "t1", "t2", "t3"}) {
    EXPECT_THAT(episodes.AwaitFiles(transfer).second, HasSubstr("does not hold the snapshot ep9.1"));
  }
  std::ofstream(root_ + "/go").close();
  EXPECT_TRUE(runner->WaitDone(seconds(60)));
}

TEST(SendFilesTest, ASnapshotThatIsNotHeldIsNotAFailure) {
  struct Broken final : sandbox::Snapshot {
    absl::Status WriteTar(const sandbox::ByteSink&) const override { return absl::UnavailableError("bad disk"); }
  };
  v1::SnapshotFilesPart last;
  const auto send = [&last](const v1::SnapshotFilesPart& part) {
    last = part;
    return absl::OkStatus();
  };
  EXPECT_TRUE(absl::IsNotFound(SendFiles(nullptr, {}, send)));
  EXPECT_TRUE(last.done());
  EXPECT_THAT(last.error(), HasSubstr("does not hold"));
  const Broken broken;
  EXPECT_TRUE(absl::IsUnavailable(SendFiles(&broken, {}, send)));
  EXPECT_FALSE(last.done());
  EXPECT_EQ(last.error(), "bad disk");
}

TEST_F(BranchingTest, ALeafWhoseSnapshotIsNotHereSaysSo) {
  FakeEpisodes episodes(1);
  episodes.change = [](const auto&, v1::EpisodeOpenResponse& response) {
    response.mutable_fork()->set_snapshot_id("elsewhere.3");
  };
  ASSERT_TRUE(Start(episodes)->WaitDone(seconds(60)));
  ASSERT_EQ(episodes.ends().size(), 1u);
  EXPECT_EQ(episodes.ends()[0].state(), v1::EPISODE_INFRASTRUCTURE_FAILED);
  EXPECT_EQ(episodes.ends()[0].cause(), "snapshot");
  EXPECT_THAT(episodes.ends()[0].detail(), StartsWith("snapshot: this runner does not hold the snapshot elsewhere.3"));
}

TEST_F(BranchingTest, SnapshotsAreBounded) {
  options_.max_snapshots = 1;
  FakeEpisodes episodes(1);
  const auto runner = Start(episodes);
  AwaitFile("waits");
  for (const char* snapshot : {"ep0.1", "ep0.2"}) episodes.Ask("ep0", snapshot, false);
  const auto taken = episodes.AwaitTaken(2);
  ASSERT_EQ(taken.size(), 2u);
  EXPECT_EQ(taken[0].error(), "");
  EXPECT_THAT(taken[1].error(), HasSubstr("agents.max_snapshots"));
  EXPECT_TRUE(runner->Stop().ok());
  ASSERT_EQ(episodes.ends().size(), 1u);
  EXPECT_EQ(episodes.ends()[0].state(), v1::EPISODE_FENCED) << "the runner was stopped";
}

TEST(BranchingOptionsTest, NeedARecipeThatResumes) {
  RunnerOptions options;
  options.branching = {.at = 1, .width = 2};
  options.recipes.emplace_back().command = {"agent"};
  options.recipes[0].verifier.expected = "1";
  EXPECT_THAT(std::string(options.Validate().message()), HasSubstr("set its `resumes`"));
  options.recipes[0].resumes = true;
  EXPECT_TRUE(options.Validate().ok()) << options.Validate();
}

}  // namespace
}  // namespace ingot::agents
