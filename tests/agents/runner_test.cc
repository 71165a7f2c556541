#include "agents/runner.h"
#include "base/utf8.h"

#include <dirent.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <set>
#include <thread>

#include "agents/fake_episodes.h"
#include "base/retry.h"
#include "sandbox/local_substrate.h"
#include "sandbox/marked_processes.h"
#include "sandbox/test_sandbox.h"

namespace ingot::agents::runner_test {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

class RunnerTest : public testing::Test {
 protected:
  RunnerTest() : root_(folder_.path()) {
    options_.work_root = root_ + "/work";
    options_.concurrency = 2;
    options_.backoff_initial_s = 0.001;
    options_.recipes.emplace_back();
    recipe().timeout_s = 60;
    SetScript("echo 42");
  }

  RecipeOptions& recipe() { return options_.recipes[0]; }
  void SetScript(const std::string& script) { recipe().command = {"/bin/sh", "-c", script}; }

  std::unique_ptr<sandbox::Substrate> Ground() const {
    sandbox::SubstrateOptions options;
    options.work_root = options_.work_root;
    options.isolation = "process";
    auto substrate = sandbox::MakeSubstrate(options);
    EXPECT_TRUE(substrate.ok()) << substrate.status();
    return substrate.ok() ? *std::move(substrate) : nullptr;
  }

  // Runs until the gateway has no more tasks.
  RunnerStats RunAll(FakeEpisodes& episodes) {
    auto runner = Runner::Make(options_, Ground(), episodes, base::Clock::Real());
    EXPECT_TRUE(runner.ok()) << runner.status();
    EXPECT_TRUE((*runner)->Start().ok());
    EXPECT_TRUE((*runner)->WaitDone(seconds(60)));
    return (*runner)->Stats();
  }

  // Runs one episode and expects its failure for `cause`, with `detail` in the report.
  void ExpectFailure(const std::string& cause, const std::string& detail) {
    FakeEpisodes episodes(1);
    const RunnerStats stats = RunAll(episodes);
    EXPECT_EQ(stats.failures, (std::map<std::string, int64_t>{{cause, 1}}));
    ASSERT_EQ(episodes.ends().size(), 1u);
    const std::set<std::string> of_the_agent = {"crash", "timeout", "flood"};
    EXPECT_EQ(episodes.ends()[0].state(),
              of_the_agent.contains(cause) ? v1::EPISODE_FAILED : v1::EPISODE_INFRASTRUCTURE_FAILED);
    EXPECT_EQ(episodes.ends()[0].cause(), cause);
    EXPECT_THAT(episodes.ends()[0].detail(), StartsWith(cause + ": "));
    EXPECT_THAT(episodes.ends()[0].detail(), HasSubstr(detail));
    EXPECT_TRUE(episodes.rewards().empty());
    EXPECT_TRUE(WorkRootIsEmpty());
  }

  bool WorkRootIsEmpty() const { return !fs::exists(root_ + "/work") || fs::is_empty(root_ + "/work"); }
  std::string Path(const std::string& name) const { return root_ + "/" + name; }
  std::string Content(const std::string& path) const {
    std::ifstream file(path);
    return std::string(std::istreambuf_iterator<char>(file), {});
  }

  const sandbox::TestFolder folder_;
  const std::string root_;
  const sandbox::MarkedProcesses marked_;  // "sleep " + marked_.sleep() runs until it is killed, and can be found
  RunnerOptions options_;
};

TEST_F(RunnerTest, NeedsARecipe) {
  options_.recipes.clear();
  FakeEpisodes episodes(1);
  const auto runner = Runner::Make(options_, Ground(), episodes, base::Clock::Real());
  EXPECT_THAT(std::string(runner.status().message()), HasSubstr("agents.recipes is empty"));
}

TEST_F(RunnerTest, RunsEveryTaskWithAsManyEpisodesAsSlots) {
  options_.concurrency = 3;
  FakeEpisodes episodes(20);
  // The first rewards wait until all slots have an episode.
  episodes.before_reward = [&](const auto&) {
    return episodes.AwaitOpened(3) ? absl::OkStatus() : absl::AbortedError("");
  };
  const RunnerStats stats = RunAll(episodes);
  EXPECT_EQ(episodes.most_open(), 3);
  EXPECT_EQ(stats.opened, 20);
  EXPECT_EQ(stats.finished, 20);
  EXPECT_EQ(stats.failed, 0);
  EXPECT_EQ(stats.running, 0);
  EXPECT_EQ(stats.reward_sum, 20);
  EXPECT_GT(stats.agent_cpu_s, 0);
  EXPECT_TRUE(stats.done);
  ASSERT_EQ(episodes.rewards().size(), 20u);
  for (const auto& [id, reward] : episodes.rewards()) {
    EXPECT_EQ(reward.reward(), 1);
    EXPECT_GT(reward.signals().at("agent/completion_seconds"), 0);
  }
  for (const auto& end : episodes.ends()) EXPECT_EQ(end.state(), v1::EPISODE_FINISHED);
  EXPECT_TRUE(WorkRootIsEmpty());
}

TEST_F(RunnerTest, EveryEpisodeSaysHowStrongItsWallWas) {
  FakeEpisodes episodes(2);
  RunAll(episodes);
  const std::string metadata = absl::StrCat(R"({"sandbox":)", Ground()->probe_result().Json(), "}");
  EXPECT_THAT(metadata, StartsWith(R"({"sandbox":{"isolation":"process","own_uid":)"));
  EXPECT_THAT(episodes.metadata(), ElementsAre(metadata, metadata));
}

// Where the wall is weakest, agents share the uid and the processes' names of everything above them.
TEST_F(RunnerTest, AnAgentThatKillsItsParentOrTheLauncherFailsAlone) {
  options_.concurrency = 1;
  options_.backoff_max_s = 0.01;
  for (const std::string victim : {"$PPID", "$(cut -d ' ' -f 4 /proc/$PPID/stat)"}) {
    FakeEpisodes episodes(4);
    int opened = 0;
    episodes.before_open = [&] {
      fs::remove(Path("kill"));
      if (++opened == 2) std::ofstream(Path("kill")) << "";
      return absl::OkStatus();
    };
    SetScript("test -e " + Path("kill") + " && { sleep " + marked_.sleep() + " & kill -9 " + victim + "; }; echo 42");
    sandbox::SubstrateOptions ground;
    ground.work_root = options_.work_root;
    ground.isolation = "process";
    ground.agent_uid = "shared";
    auto weak = sandbox::LocalSubstrate::Make(ground, sandbox::kPidNamespace | sandbox::kMountNamespace);
    ASSERT_TRUE(weak.ok()) << weak.status();
    sandbox::LocalSubstrate& substrate = **weak;
    ASSERT_TRUE(substrate.probe_result().is_open());
    const pid_t launcher = substrate.launcher_pid();
    auto runner = Runner::Make(options_, *std::move(weak), episodes, base::Clock::Real());
    ASSERT_TRUE(runner.ok()) << runner.status();
    ASSERT_TRUE((*runner)->Start().ok());
    ASSERT_TRUE((*runner)->WaitDone(seconds(60)));
    EXPECT_EQ((*runner)->Stats().finished, victim == "$PPID" ? 3 : 4);
    EXPECT_EQ(substrate.launcher_pid() == launcher, victim == "$PPID");
    EXPECT_EQ(marked_.Count(), 0) << "the killer's own processes";
    EXPECT_TRUE(WorkRootIsEmpty());
  }
}

TEST_F(RunnerTest, AgentSeesItsUrlKeyTaskFilesAndPrivateFolders) {
  setenv("INGOT_TEST_SECRET", "leaked", 1);
  recipe().env = {{"WORD", "${task.text}"}};
  recipe().files = {{"in/tools.json", R"({"t":${task},"id":"${task_id}"})"}};
  recipe().setup = {{{"sh", "-c", "echo setup > made"}}};
  SetScript(
      "echo \"$OPENAI_BASE_URL|$OPENAI_API_KEY|$INGOT_EPISODE_ID|$INGOT_TASK_ID|$INGOT_PURPOSE|$WORD|$(cat made)|"
      "$(cat in/tools.json)|$PWD|$HOME|$INGOT_TEST_SECRET\"");
  recipe().verifier.expected =
      "http://127.0.0.1:1/s/ep0/v1|key-ep0|ep0|task-ep0|train|hello|setup|"
      "{\"t\":{\"text\":\"hello\",\"answer\":\"42\"},\"id\":\"task-ep0\"}|${workdir}|${home}|";
  FakeEpisodes episodes(1);
  RunAll(episodes);
  ASSERT_EQ(episodes.ends().size(), 1u);
  EXPECT_EQ(episodes.rewards().at("ep0").reward(), 1) << episodes.ends()[0].detail();
}

TEST_F(RunnerTest, AFreshVerifierHasTheAgentsFilesAndNothingElseOfTheAgent) {
  SetScript("echo kept > result; mkdir -p $HOME/bin; echo planted > $TMPDIR/note; echo 42");
  recipe().verifier.kind = "command";
  recipe().verifier.command = {"/bin/sh", "-c", "test \"$(cat result)\" = kept && ! test -e ../tmp/note"};
  for (const std::string sandbox : {"auto", "agent", "changed", "pristine"}) {
    recipe().verifier_sandbox = sandbox;
    FakeEpisodes episodes(1);
    EXPECT_EQ(RunAll(episodes).finished, 1);
    EXPECT_EQ(episodes.rewards().at("ep0").reward(), sandbox == "changed" || sandbox == "pristine" ? 1 : 0) << sandbox;
  }
  EXPECT_TRUE(WorkRootIsEmpty());
}

TEST_F(RunnerTest, AWrongAnswerIsAFinishedEpisodeWithRewardZero) {
  SetScript("echo 41");
  FakeEpisodes episodes(1);
  EXPECT_EQ(RunAll(episodes).finished, 1);
  EXPECT_EQ(episodes.rewards().at("ep0").reward(), 0);
  EXPECT_THAT(episodes.ends()[0].detail(), HasSubstr("'41'"));
}

TEST_F(RunnerTest, AHangingAgentAndItsGrandchildAreDeadBeforeTheEndIsReported) {
  recipe().timeout_s = 1.5;
  recipe().env = {{"OUT", Path("started")}};
  const std::string hang = "while :; do sleep " + marked_.sleep() + "; done";
  SetScript("trap '' TERM; (trap '' TERM; " + hang + ") & echo yes > $OUT; " + hang);
  FakeEpisodes episodes(1);
  bool dead = false;
  episodes.before_end = [&](const auto&) {
    dead = marked_.Count() == 0;
    return absl::OkStatus();
  };
  EXPECT_EQ(RunAll(episodes).failures, (std::map<std::string, int64_t>{{"timeout", 1}}));
  EXPECT_EQ(Content(Path("started")), "yes\n");
  EXPECT_TRUE(dead);
  EXPECT_THAT(episodes.ends()[0].detail(), HasSubstr("limit of 1.5 s"));
}

TEST_F(RunnerTest, AnAgentThatLeavesADaemonBehindCannotCallAfterItsEnd) {
  recipe().env = {{"OUT", Path("started")}};
  SetScript("setsid sh -c 'echo yes > $OUT; exec sleep " + marked_.sleep() +
            "' & while [ ! -s $OUT ]; do sleep 0.01; done; echo 42");
  FakeEpisodes episodes(1);
  bool dead = false;
  episodes.before_end = [&](const auto&) {
    dead = marked_.Count() == 0;
    return absl::OkStatus();
  };
  EXPECT_EQ(RunAll(episodes).finished, 1);
  EXPECT_TRUE(dead);
}

TEST_F(RunnerTest, AFloodingAgentFails) {
  recipe().max_output_bytes = 5000;
  SetScript("cat /dev/zero");
  ExpectFailure("flood", "5000 bytes");
}

TEST_F(RunnerTest, ACrashFailsWithTheEndOfItsStderr) {
  SetScript("echo 42; printf 'Traceback\\n\\377boom' >&2; exit 3");
  ExpectFailure("crash", "exited with 3; stderr ends: Traceback \uFFFDboom");
}

TEST_F(RunnerTest, TheLogNamesTheGatewaysLastRejectionBesideTheCrash) {
  SetScript("echo KeyError >&2; exit 3");
  FakeEpisodes episodes(1);
  episodes.last_rejection = "400 context_length_exceeded: 900 tokens";
  testing::internal::CaptureStdout();
  RunAll(episodes);
  EXPECT_THAT(
      testing::internal::GetCapturedStdout(),
      HasSubstr("stderr ends: KeyError; the gateway's last rejection: 400 context_length_exceeded: 900 tokens"));
}

TEST_F(RunnerTest, ASignalFails) {
  SetScript("kill -SEGV $$");
  ExpectFailure("crash", "signal 11");
}

// The mean of a signal that is 0 or 1 in every episode is a rate.
TEST_F(RunnerTest, EveryRewardSaysWhetherTheAgentMisbehaved) {
  SetScript("echo 42");
  FakeEpisodes episodes(1);
  RunAll(episodes);
  const auto signals = episodes.rewards().at("ep0").signals();
  for (const char* name : {"agent/timeout", "agent/crash", "agent/flood", "answer_malformed"}) {
    ASSERT_TRUE(signals.contains(name)) << name;
    EXPECT_EQ(signals.at(name), 0) << name;
  }
}

TEST_F(RunnerTest, MisbehaviourCanBeScoredInstead) {
  recipe().on_crash = "verify";
  SetScript("echo 42; exit 3");
  FakeEpisodes verified(1);
  EXPECT_EQ(RunAll(verified).finished, 1);
  EXPECT_EQ(verified.rewards().at("ep0").reward(), 1);
  EXPECT_EQ(verified.rewards().at("ep0").signals().at("agent/crash"), 1);
  EXPECT_EQ(verified.rewards().at("ep0").signals().at("agent/timeout"), 0);

  recipe().on_crash = "zero";
  FakeEpisodes zero(1);
  EXPECT_EQ(RunAll(zero).finished, 1);
  EXPECT_EQ(zero.rewards().at("ep0").reward(), 0);
  EXPECT_THAT(zero.ends()[0].detail(), HasSubstr("exited with 3"));
}

TEST_F(RunnerTest, FailingSetupNamesTheStepAndCleanupRunsAnyway) {
  recipe().setup = {{{"true"}}, {{"sh", "-c", "echo no disk >&2; exit 7"}}};
  recipe().cleanup = {{{"sh", "-c", "echo cleaned > " + Path("cleaned")}}};
  SetScript("touch " + Path("ran"));
  ExpectFailure("setup", "setup[1] (sh) exited with 7; stderr ends: no disk");
  EXPECT_FALSE(fs::exists(Path("ran")));
  EXPECT_EQ(Content(Path("cleaned")), "cleaned\n");
}

TEST_F(RunnerTest, AFailingCleanupChangesNothing) {
  recipe().cleanup = {{{"no-such-program"}}, {{"false"}}};
  FakeEpisodes episodes(1);
  EXPECT_EQ(RunAll(episodes).finished, 1);
}

TEST_F(RunnerTest, ATaskWithoutAFieldThatATemplateNamesFails) {
  recipe().env = {{"Q", "${task.question}"}};
  ExpectFailure("task", "env.Q: the task has no value at ${task.question}: its fields are text, answer");
}

TEST_F(RunnerTest, AMalformedPayloadFails) {
  for (const char* payload : {"{", "[1]", "3"}) {
    FakeEpisodes episodes(1, payload);
    EXPECT_EQ(RunAll(episodes).failures, (std::map<std::string, int64_t>{{"task", 1}}));
  }
}

TEST_F(RunnerTest, ABrokenVerifierFailsTheEpisodeInsteadOfScoringZero) {
  recipe().verifier.expected = "${task.solution}";
  ExpectFailure("verifier", "solution");
}

TEST_F(RunnerTest, SpawnErrorsDoNotEndTheRunner) {
  recipe().command = {"/no/such/agent"};
  FakeEpisodes episodes(7);
  const RunnerStats stats = RunAll(episodes);
  EXPECT_EQ(stats.failures, (std::map<std::string, int64_t>{{"sandbox", 7}}));
  EXPECT_EQ(episodes.ends().size(), 7u);
  EXPECT_THAT(episodes.ends()[0].detail(), HasSubstr("/no/such/agent"));
}

TEST_F(RunnerTest, AWorkRootThatBecomesUnusableIsAnEpisodesFailureToo) {
  FakeEpisodes episodes(3);
  auto runner = Runner::Make(options_, Ground(), episodes, base::Clock::Real());
  fs::remove_all(options_.work_root);
  std::ofstream(options_.work_root) << "a file where the folder was";
  ASSERT_TRUE((*runner)->Start().ok());
  EXPECT_TRUE((*runner)->WaitDone(seconds(60)));
  EXPECT_EQ((*runner)->Stats().failures, (std::map<std::string, int64_t>{{"sandbox", 3}}));
}

TEST_F(RunnerTest, TheAnswerCanStandInAFile) {
  recipe().answer_from = "file";
  recipe().answer_file = "out/answer.txt";
  SetScript("mkdir out; echo 42 > out/answer.txt; echo noise");
  FakeEpisodes episodes(1);
  RunAll(episodes);
  EXPECT_EQ(episodes.rewards().at("ep0").reward(), 1);

  SetScript("echo 42");
  FakeEpisodes missing(1);
  RunAll(missing);
  EXPECT_EQ(missing.rewards().at("ep0").reward(), 0);
  EXPECT_EQ(missing.rewards().at("ep0").signals().at("answer_malformed"), 1);
}

TEST_F(RunnerTest, AVerifiersCommandHasAHomeThatTheAgentWasNeverIn) {
  SetScript("echo evil > $HOME/.profile; echo evil > $TMPDIR/left; echo mine > made; echo 42");
  recipe().verifier.kind = "command";
  recipe().verifier.command = {"sh", "-c",
                               "test -z \"$(ls -A $HOME $TMPDIR | grep -v :)\" && touch $HOME/a $TMPDIR/b && "
                               "test -e $1/.profile && test -e made",
                               "verify", "${home}"};
  FakeEpisodes episodes(1);
  EXPECT_EQ(RunAll(episodes).finished, 1);
  EXPECT_EQ(episodes.rewards().at("ep0").reward(), 1) << episodes.ends()[0].detail();
  EXPECT_TRUE(WorkRootIsEmpty());
}

TEST_F(RunnerTest, AVerifiedAgentHasNoKeyThatRewardsOrEnds) {
  recipe().files = {{"all", "${api_key} ${base_url} ${task}"}};
  SetScript("(env; cat all) | grep -c 'owner-' || echo none");
  recipe().verifier.expected = "none";
  FakeEpisodes judged(1);
  RunAll(judged);
  EXPECT_EQ(judged.owners().at("ep0"), "owner-ep0") << "the key with which the runner rewards and ends";
  ASSERT_EQ(judged.ends().size(), 1u);
  EXPECT_EQ(judged.ends()[0].state(), v1::EPISODE_FINISHED);
  EXPECT_EQ(judged.rewards().at("ep0").reward(), 1) << judged.ends()[0].detail();

  recipe().verifier.kind = "agent_posted";
  FakeEpisodes posted(1);
  RunAll(posted);
  EXPECT_EQ(posted.owners().at("ep0"), "key-ep0");
}

TEST_F(RunnerTest, BinaryOutputDoesNotReachTheProtos) {
  SetScript("printf '\\377\\376\\000x\\n'");
  FakeEpisodes episodes(1);
  RunAll(episodes);
  EXPECT_EQ(episodes.ends()[0].detail(), base::ToUtf8(episodes.ends()[0].detail()));
}

TEST_F(RunnerTest, KeepsTheFoldersOfTheFirstFailures) {
  recipe().keep_failed = true;
  options_.keep_failed_max = 2;
  options_.concurrency = 1;
  SetScript("echo said; echo why >&2; echo mine > notes; mkfifo ../stdout.txt stdout.txt 2>/dev/null; exit 1");
  FakeEpisodes episodes(4);
  RunAll(episodes);
  EXPECT_EQ(Content(root_ + "/work/kept-ep0/stdout.txt"), "said\n");
  EXPECT_EQ(Content(root_ + "/work/kept-ep1/stderr.txt"), "why\n");
  EXPECT_EQ(Content(root_ + "/work/kept-ep0/work/notes"), "mine\n");
  EXPECT_THAT(Content(root_ + "/work/kept-ep0/failure.txt"), StartsWith("crash: "));
  EXPECT_EQ(std::distance(fs::directory_iterator(root_ + "/work"), fs::directory_iterator()), 2);
}

TEST_F(RunnerTest, RecipesShareByWeightAndKeepTheirOwnBound) {
  options_.concurrency = 1;
  options_.recipes.push_back(recipe());
  options_.recipes[0].name = "a";
  options_.recipes[0].weight = 3;
  options_.recipes[1].name = "b";
  FakeEpisodes episodes(20);
  RunAll(episodes);
  EXPECT_EQ(episodes.scaffolds(), (std::map<std::string, int>{{"a", 15}, {"b", 5}}));

  options_.concurrency = 8;
  for (RecipeOptions& recipe : options_.recipes) recipe.max_concurrent = 1;
  FakeEpisodes bounded(10);
  EXPECT_EQ(RunAll(bounded).finished, 10);
  EXPECT_LE(bounded.most_open(), 2);
}

TEST_F(RunnerTest, TheDomainOfATaskChoosesAmongRecipes) {
  options_.recipes.push_back(recipe());
  options_.recipes[0].name = "plain";
  options_.recipes[1].name = "coder";
  options_.recipes[1].domains = {"code"};
  options_.recipes[1].command = {"/bin/sh", "-c", "echo code 42"};
  options_.recipes[1].verifier.expected = "code 42";
  FakeEpisodes episodes(12);
  episodes.domains = {"code", "maths", ""};
  EXPECT_EQ(RunAll(episodes).reward_sum, 12) << "each agent wrote its own recipe's answer";
  for (int i = 0; i < 12; ++i) {
    EXPECT_EQ(episodes.scaffold_of().at(absl::StrCat("ep", i)), i % 3 == 0 ? "coder" : "plain");
  }
}

TEST_F(RunnerTest, ATaskThatNoRecipeIsForFailsAsInfrastructure) {
  recipe().domains = {"code"};
  FakeEpisodes episodes(1);
  episodes.domains = {"maths"};
  EXPECT_EQ(RunAll(episodes).failures, (std::map<std::string, int64_t>{{"task", 1}}));
  EXPECT_EQ(episodes.ends()[0].state(), v1::EPISODE_INFRASTRUCTURE_FAILED);
  EXPECT_THAT(episodes.ends()[0].detail(), HasSubstr("no recipe is for the domain 'maths'"));
}

// A server that answers as its first argument says, and says that it was started.
constexpr char kServer[] = R"(#!/bin/sh
read -r asked
echo "$asked" >> "$SEEN"
echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2024-11-05"}}'
)";

TEST_F(RunnerTest, McpServersAreCheckedAndNamedInTheScaffoldsConfiguration) {
  recipe().files = {{"server", kServer}, {"mcp.json", R"({"mcpServers": ${mcp.servers}})"}};
  recipe().mcp = {
      {.name = "words", .command = {"${workdir}/server", "${task.text}"}, .env = {{"SEEN", "${workdir}/seen"}}}};
  recipe().env = {{"OUT", Path("seen")}};
  SetScript("cat mcp.json seen > $OUT; echo 42");
  FakeEpisodes episodes(1);
  EXPECT_EQ(RunAll(episodes).finished, 1) << episodes.ends()[0].detail();
  const std::string written = Content(Path("seen"));
  EXPECT_THAT(written, HasSubstr(R"({"mcpServers": {"words":{"command":")"));
  EXPECT_THAT(written, HasSubstr(R"(/server","args":["hello"],"env":{"SEEN":")"));
  EXPECT_THAT(written, HasSubstr(R"("method":"initialize")")) << "the server was started before the agent";
}

TEST_F(RunnerTest, AnMcpServerThatDoesNotStartIsANamedFailureOfTheInfrastructure) {
  recipe().files = {{"server", "#!/bin/sh\necho no database >&2; exit 3\n"}};
  recipe().mcp = {{.name = "notes", .command = {"${workdir}/server"}, .env = {}}};
  ExpectFailure("mcp", "the MCP server 'notes' (");
  ExpectFailure("mcp", "did not respond and exited with 3; stderr ends: no database");
  recipe().mcp[0].command = {"/no/such/server"};
  ExpectFailure("mcp", "the MCP server 'notes' (/no/such/server) did not start");
  recipe().files = {{"server", "#!/bin/sh\necho '{\"id\":1,\"error\":{\"message\":\"too old\"}}'\n"}};
  recipe().mcp[0].command = {"${workdir}/server"};
  ExpectFailure("mcp", "rejected `initialize`: too old");
  recipe().mcp[0].check_start = false;
  FakeEpisodes episodes(1);
  EXPECT_EQ(RunAll(episodes).finished, 1) << "it is the agent's trouble";
}

TEST_F(RunnerTest, ARejectedAdmissionIsAskedForAgainAtTheTimeThatItNamed) {
  options_.concurrency = 3;
  options_.backoff_max_s = 60;
  base::ManualClock clock;
  FakeEpisodes episodes(5);
  base::Mutex mu;
  std::vector<std::chrono::nanoseconds> asked;
  base::CondVar changed;
  int rejections = 0;
  episodes.before_open = [&] {
    base::MutexLock lock(mu);
    asked.push_back(clock.Now());
    if (rejections == 5) return absl::OkStatus();
    ++rejections;
    changed.SignalAll();
    while (rejections < 3) changed.Wait(mu);  // all three ask before the first is refused
    return base::WithRetryAfter(absl::ResourceExhaustedError("full"), 5000);
  };
  auto runner = Runner::Make(options_, Ground(), episodes, clock);
  ASSERT_TRUE(runner.ok());
  ASSERT_TRUE((*runner)->Start().ok());
  for (const int wave : {3, 4, 5}) {
    {
      base::MutexLock lock(mu);
      while (rejections < wave) changed.Wait(mu);
      EXPECT_EQ(rejections, wave);
    }
    // The runner must have recorded the refusal before time moves, or its wait would begin later.
    while ((*runner)->Stats().rejected < wave) std::this_thread::yield();
    clock.Advance(seconds(5));
  }
  EXPECT_TRUE((*runner)->WaitDone(seconds(60)));
  EXPECT_EQ((*runner)->Stats().finished, 5);
  EXPECT_EQ((*runner)->Stats().rejected, 5);
  EXPECT_EQ(asked[2], seconds(1));
  EXPECT_EQ(asked[3], seconds(6));
  EXPECT_EQ(asked[4], seconds(11));
  EXPECT_EQ(asked[5], seconds(16));
}

TEST_F(RunnerTest, ACrashMakesItsSlotWaitUntilAnEpisodeHasFinished) {
  options_.concurrency = 1;
  options_.backoff_initial_s = options_.backoff_max_s = 10;
  base::ManualClock clock;
  FakeEpisodes episodes(4);
  std::vector<std::chrono::nanoseconds> asked;
  episodes.before_open = [&] {
    asked.push_back(clock.Now());
    fs::remove(Path("sound"));
    if (asked.size() == 2) std::ofstream(Path("sound")) << "";
    return absl::OkStatus();
  };
  SetScript("test -e " + Path("sound") + " && echo 42");
  auto runner = Runner::Make(options_, Ground(), episodes, clock);
  ASSERT_TRUE(runner.ok());
  ASSERT_TRUE((*runner)->Start().ok());
  while ((*runner)->Stats().failed < 1) std::this_thread::yield();
  while ((*runner)->Stats().opened < 2) {
    clock.Advance(milliseconds(10));
    std::this_thread::yield();
  }
  EXPECT_TRUE((*runner)->WaitDone(seconds(1)));
  EXPECT_EQ((*runner)->Stats().finished, 1);
  EXPECT_EQ((*runner)->Stats().failed, 3);
  ASSERT_EQ(asked.size(), 5u);
  EXPECT_GE(asked[1] - asked[0], seconds(10));
  EXPECT_LT(asked[4] - asked[2], seconds(10)) << "crashes beside sound agents are those agents' own";
}

TEST_F(RunnerTest, AGatewayThatComesBackLosesNothing) {
  options_.concurrency = 1;
  FakeEpisodes episodes(2);
  int opens = 0, rewards = 0, ends = 0;
  episodes.before_open = [&] { return ++opens <= 3 ? absl::UnavailableError("restarting") : absl::OkStatus(); };
  episodes.before_reward = [&](const auto&) {
    return ++rewards <= 3 ? absl::UnavailableError("restarting") : absl::OkStatus();
  };
  episodes.before_end = [&](const auto&) {
    return ++ends <= 3 ? absl::DeadlineExceededError("slow")
           : ends == 4 ? absl::CancelledError("it is itself being ended")
                       : absl::OkStatus();
  };
  const RunnerStats stats = RunAll(episodes);
  EXPECT_EQ(stats.open_errors, 3);
  EXPECT_EQ(stats.finished, 2);
  EXPECT_EQ(episodes.ends().size(), 2u);
}

TEST_F(RunnerTest, AnOpeningWithoutAnAnswerIsAskedForAgainAndNoOther) {
  options_.concurrency = 1;
  FakeEpisodes episodes(2);
  int opens = 0;
  episodes.before_open = [&]() -> absl::Status {
    switch (++opens) {
      case 1:
        return absl::UnavailableError("gone before it answered");
      case 2:
        return absl::DeadlineExceededError("slow");
      case 5:
        return absl::ResourceExhaustedError("not opened");
      default:
        return absl::OkStatus();
    }
  };
  EXPECT_EQ(RunAll(episodes).finished, 2);
  const std::vector<std::string> keys = episodes.keys();  // 2 lost answers, 2 episodes, a refusal, the end of tasks
  ASSERT_EQ(keys.size(), 6u);
  EXPECT_EQ(keys[0].size(), 32u);
  EXPECT_EQ(keys[1], keys[0]);
  EXPECT_EQ(keys[2], keys[0]);
  EXPECT_EQ(std::set<std::string>(keys.begin() + 2, keys.end()).size(), 4u);
}

TEST_F(RunnerTest, ARejectedRewardFailsTheEpisode) {
  options_.report_retry_s = 0;
  for (const absl::Status& rejection : {absl::NotFoundError("no such episode"), absl::UnavailableError("away")}) {
    FakeEpisodes episodes(1);
    episodes.before_reward = [&](const auto&) { return rejection; };
    EXPECT_EQ(RunAll(episodes).failures, (std::map<std::string, int64_t>{{"gateway", 1}}));
    EXPECT_EQ(episodes.ends()[0].state(), v1::EPISODE_INFRASTRUCTURE_FAILED);
    EXPECT_THAT(episodes.ends()[0].detail(), HasSubstr(std::string(rejection.message())));
  }
}

// The reward of 0 goes with the end, as one that the pool takes where there is none: an agent's own may come to the pool by
// another gateway than the one that takes the end.
TEST_F(RunnerTest, AnAgentThatPostsNoRewardEarnsZero) {
  recipe().verifier.kind = "agent_posted";
  FakeEpisodes episodes(1);
  int posts = 0;
  episodes.before_reward = [&](const auto&) {
    ++posts;
    return absl::OkStatus();
  };
  EXPECT_EQ(RunAll(episodes).finished, 1);
  EXPECT_EQ(posts, 0);
  EXPECT_EQ(episodes.rewards().at("ep0").reward(), 0);
  EXPECT_EQ(episodes.rewards().at("ep0").signals().at("answer_malformed"), 1);
  ASSERT_EQ(episodes.ends().size(), 1u);
  EXPECT_EQ(episodes.ends()[0].state(), v1::EPISODE_FINISHED);
  EXPECT_EQ(episodes.ends()[0].unless_rewarded().detail(), "the agent has posted no reward");
}

// Whatever the runner makes of the agent's end, and whatever a gateway answers that does not know of the reward.
TEST_F(RunnerTest, NoDefaultReplacesTheRewardOfAnAgent) {
  recipe().verifier.kind = "agent_posted";
  recipe().on_crash = recipe().on_timeout = recipe().on_flood = "zero";
  for (const char* script : {"true", "exit 3", "cat /dev/zero"}) {
    SetScript(script);
    FakeEpisodes episodes(1);
    int asked = 0;
    episodes.before_end = [&](const v1::EpisodeEndRequest& end) -> absl::Status {
      if (++asked > 1) return absl::OkStatus();
      v1::EpisodeRewardRequest own;
      own.set_episode_id(end.episode_id());
      own.set_api_key(end.api_key());
      own.set_reward(0.75);
      EXPECT_TRUE(episodes.Reward(own).ok());
      return absl::UnavailableError("another gateway serves it");
    };
    EXPECT_EQ(RunAll(episodes).finished, 1) << script;
    EXPECT_EQ(episodes.rewards().at("ep0").reward(), 0.75) << script;
    ASSERT_EQ(episodes.ends().size(), 1u) << script;
    EXPECT_EQ(episodes.ends()[0].state(), v1::EPISODE_FINISHED) << script;
  }
}

TEST_F(RunnerTest, ARejectedEndFailsTheEpisode) {
  FakeEpisodes episodes(1);
  episodes.before_end = [](const v1::EpisodeEndRequest& end) {
    return end.state() == v1::EPISODE_FINISHED ? absl::InvalidArgumentError("not so") : absl::OkStatus();
  };
  const RunnerStats stats = RunAll(episodes);
  EXPECT_EQ(stats.failures, (std::map<std::string, int64_t>{{"gateway", 1}}));
  EXPECT_EQ(stats.unreported, 0);
  ASSERT_EQ(episodes.ends().size(), 1u) << "the episode is not left open";
  EXPECT_EQ(episodes.ends()[0].state(), v1::EPISODE_INFRASTRUCTURE_FAILED);
  EXPECT_EQ(episodes.ends()[0].detail(), "gateway: the gateway did not accept the end: not so");
}

TEST_F(RunnerTest, AnEndThatMayHaveBeenAcceptedIsNotReplacedByAnother) {
  options_.report_retry_s = 0;
  FakeEpisodes episodes(1);
  int ends = 0;
  episodes.before_end = [&](const auto&) {
    return ++ends == 1 ? absl::DeadlineExceededError("slow") : absl::OkStatus();
  };
  EXPECT_EQ(RunAll(episodes).unreported, 1);
  EXPECT_EQ(ends, 1);
}

TEST_F(RunnerTest, AnEndThatTheGatewayNeverAcceptsIsCounted) {
  FakeEpisodes episodes(1);
  episodes.before_end = [&](const auto&) { return absl::NotFoundError("fenced"); };
  const RunnerStats stats = RunAll(episodes);
  EXPECT_EQ(stats.unreported, 1);
  EXPECT_EQ(stats.running, 0);
}

TEST_F(RunnerTest, StopKillsRunningAgentsReportsThemAndLeavesNothing) {
  options_.concurrency = 4;
  recipe().timeout_s = 1000;
  recipe().env = {{"OUT", root_}};
  recipe().cleanup = {{{"sh", "-c", "echo x > $OUT/cleaned-$INGOT_EPISODE_ID"}}};
  SetScript("sleep " + marked_.sleep() + " & wait");
  FakeEpisodes episodes(100);
  auto runner = Runner::Make(options_, Ground(), episodes, base::Clock::Real());
  ASSERT_TRUE((*runner)->Start().ok());
  ASSERT_TRUE(episodes.AwaitOpened(4));
  const absl::Status stopped = (*runner)->Stop();
  EXPECT_TRUE(stopped.ok()) << stopped;
  EXPECT_EQ((*runner)->Stats().failures, (std::map<std::string, int64_t>{{"stopped", 4}}));
  ASSERT_EQ(episodes.ends().size(), 4u);
  for (const auto& end : episodes.ends()) {
    EXPECT_EQ(end.state(), v1::EPISODE_FENCED) << "no attempt that counts against its sample";
    EXPECT_THAT(end.detail(), StartsWith("stopped: "));
  }
  EXPECT_EQ(marked_.Count(), 0);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(Content(Path(absl::StrCat("cleaned-ep", i))), "x\n");
  EXPECT_TRUE(WorkRootIsEmpty());
  EXPECT_TRUE((*runner)->Stop().ok());
}

TEST_F(RunnerTest, ARewardThatCannotBePostedBeforeTheStopIsNoFailedAttempt) {
  options_.concurrency = 1;
  base::ManualClock clock;  // never advanced: the second try waits for the stop
  FakeEpisodes episodes(1);
  std::atomic<int> posts{0};
  episodes.before_reward = [&](const auto&) {
    ++posts;
    return absl::UnavailableError("away");
  };
  auto runner = Runner::Make(options_, Ground(), episodes, clock);
  ASSERT_TRUE((*runner)->Start().ok());
  while (posts == 0) std::this_thread::yield();
  EXPECT_TRUE((*runner)->Stop().ok());
  ASSERT_EQ(episodes.ends().size(), 1u);
  EXPECT_EQ(episodes.ends()[0].state(), v1::EPISODE_FENCED);
  EXPECT_THAT(episodes.ends()[0].detail(), HasSubstr("away"));
}

TEST_F(RunnerTest, StopWhileWaitingForAdmissionIsImmediate) {
  options_.backoff_initial_s = options_.backoff_max_s = 1000;
  FakeEpisodes episodes(1);
  episodes.before_open = [] { return absl::ResourceExhaustedError("full"); };
  auto runner = Runner::Make(options_, Ground(), episodes, base::Clock::Real());
  ASSERT_TRUE((*runner)->Start().ok());
  while ((*runner)->Stats().rejected == 0) std::this_thread::yield();
  EXPECT_TRUE((*runner)->Stop().ok());
}

TEST_F(RunnerTest, StopReturnsAtItsDeadlineWhenTheGatewayHangs) {
  base::ManualClock clock;
  FakeEpisodes episodes(1);
  base::Mutex mu;
  base::CondVar changed;
  bool entered = false, released = false;
  episodes.before_open = [&] {
    base::MutexLock lock(mu);
    entered = true;
    changed.SignalAll();
    while (!released) changed.Wait(mu);
    return absl::UnavailableError("late");
  };
  auto runner = Runner::Make(options_, Ground(), episodes, clock);
  ASSERT_TRUE((*runner)->Start().ok());
  {
    base::MutexLock lock(mu);
    while (!entered) changed.Wait(mu);
  }
  auto stop = std::async(std::launch::async, [&] { return (*runner)->Stop(); });
  clock.AwaitWaiters(1);
  clock.Advance(base::FromSeconds(options_.stop_timeout_s));
  const absl::Status stopped = stop.get();
  EXPECT_EQ(stopped.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(stopped.message()), HasSubstr("agent slots have not ended"));
  base::MutexLock lock(mu);
  released = true;
  changed.SignalAll();
}

int OpenDescriptors() {
  int count = 0;
  DIR* dir = opendir("/proc/self/fd");
  while (readdir(dir) != nullptr) ++count;
  closedir(dir);
  return count;
}

TEST_F(RunnerTest, TwoHundredEpisodesLeaveNoDescriptorNoZombieAndNoFolder) {
  FakeEpisodes first(1);
  RunAll(first);
  const int before = OpenDescriptors();
  options_.concurrency = 4;
  recipe().files = {{"f", "x"}};
  FakeEpisodes episodes(200);
  EXPECT_EQ(RunAll(episodes).finished, 200);
  EXPECT_EQ(OpenDescriptors(), before);
  siginfo_t info{};
  EXPECT_EQ(waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT), -1) << "a child is left: " << info.si_pid;
  EXPECT_TRUE(WorkRootIsEmpty());
}

TEST_F(RunnerTest, MetricsCarryCausesAndTimes) {
  base::Metrics metrics;
  FakeEpisodes episodes(3);
  SetScript("test $INGOT_EPISODE_ID != ep1 && echo 42");
  auto runner = Runner::Make(options_, Ground(), episodes, base::Clock::Real(), &metrics);
  ASSERT_TRUE((*runner)->Start().ok());
  EXPECT_TRUE((*runner)->WaitDone(seconds(60)));
  const std::string text = metrics.RenderText();
  EXPECT_THAT(text, HasSubstr("agents_failures{cause=\"crash\",scaffold=\"default\"} 1"));
  EXPECT_THAT(text, HasSubstr("agents_reward_mean{scaffold=\"default\"} 1"));
  EXPECT_THAT(text, HasSubstr("agents_opened 3"));
  EXPECT_THAT(text, HasSubstr("agents_running 0"));
  EXPECT_THAT(text, HasSubstr("agent_completion_seconds_count{scaffold=\"default\"} 3"));
}

}  // namespace
}  // namespace ingot::agents::runner_test
