// Tests Python reward functions in the verifier and in the term. They run in the sandbox that this machine allows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/json.h"
#include "group_maker.h"
#include "reward/term_kinds.h"
#include "reward/terms/python_score.h"
#include "reward/verifier.h"
#include "sandbox/test_sandbox.h"

namespace ingot::reward {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class PythonTest : public testing::Test {
 protected:
  PythonTest() {
    sandbox::SubstrateOptions options;
    options.work_root = folder_.path() + "/sandboxes";
    options.agent_uid = "shared";
    auto substrate = sandbox::LocalSubstrate::Make(options);
    EXPECT_TRUE(substrate.ok()) << substrate.status();
    if (substrate.ok()) substrate_ = *std::move(substrate);
    options_.kind = "python";
    options_.python.function = "rewards.py:score";
    options_.python.interpreter = "python3";
  }
  void SetUp() override { ASSERT_NE(substrate_, nullptr); }

  void Write(const std::string& text, const std::string& file = "rewards.py") const {
    const std::string draft = folder_.path() + "/draft";
    std::ofstream(draft) << text;
    std::filesystem::rename(draft, folder_.path() + "/" + file);
  }
  VerifierInput Input() const {
    VerifierInput input;
    input.task = R"({"answer": 42})";
    input.answer = "42";
    input.cwd = folder_.path();
    input.substrate = substrate_.get();
    input.episode_id = "ep7";
    return input;
  }
  // Scores with a function that has this body.
  absl::StatusOr<Verdict> Score(const std::string& body, const std::string& arguments = "task, answer") {
    Write("def score(" + arguments + "):\n    " + body + "\n");
    return Score();
  }
  absl::StatusOr<Verdict> Score() {
    if (verifier_ == nullptr) verifier_ = *Verifier::Make(options_);
    return verifier_->Verify(Input());
  }
  std::string Fault(const std::string& body, const std::string& arguments = "task, answer") {
    return std::string(Score(body, arguments).status().message());
  }

  const sandbox::TestFolder folder_;
  std::shared_ptr<sandbox::Substrate> substrate_;
  VerifierOptions options_;
  std::unique_ptr<const Verifier> verifier_;
};

TEST_F(PythonTest, ReturnsANumber) {
  EXPECT_EQ(Score("return 0.25")->reward, 0.25);
  EXPECT_EQ(Score("return task['answer'] == int(answer)")->reward, 1);
  EXPECT_EQ(Score("return False")->reward, 0);
  EXPECT_EQ(Score("from fractions import Fraction\n    return Fraction(1, 4)")->reward, 0.25);
}

TEST_F(PythonTest, ReturnsTermsWhoseSumIsTheReward) {
  const auto verdict = Score("return {'right': 1, 'short': 0.5}");
  ASSERT_TRUE(verdict.ok()) << verdict.status();
  EXPECT_EQ(verdict->reward, 1.5);
  EXPECT_EQ(verdict->signals, (std::map<std::string, double>{{"right", 1}, {"short", 0.5}}));
}

TEST_F(PythonTest, ReturnsARewardWithSignalsFactsAndADetail) {
  const auto verdict =
      Score("return {'reward': 0.5, 'close': 1, 'signals': {'far': 0}, 'facts': {'seen': [1]}, 'detail': 'nearly'}");
  ASSERT_TRUE(verdict.ok()) << verdict.status();
  EXPECT_EQ(verdict->reward, 0.5);
  EXPECT_EQ(verdict->signals, (std::map<std::string, double>{{"close", 1}, {"far", 0}}));
  EXPECT_EQ(verdict->facts.at("seen"), "[1]");
  EXPECT_EQ(verdict->detail, "nearly");
}

TEST_F(PythonTest, GetsTheArgumentsThatItNames) {
  EXPECT_EQ(Score("return episode_id == 'ep7' and more == 3", "episode_id, more=3")->reward, 1);
  EXPECT_EQ(Score("return sorted(all) == ['answer', 'episode_id', 'messages', 'task']", "**all")->reward, 1);
  EXPECT_THAT(Fault("return 1", "task, reply"), AllOf(HasSubstr("an argument reply, which does not exist"),
                                                      HasSubstr("answer, episode_id, messages, task")));
}

TEST_F(PythonTest, GetsTheMessagesOfTheEpisode) {
  Write("def score(messages):\n    return len(messages) == 2 and messages[1]['tool_calls'][0]['id'] == 'c1'\n");
  verifier_ = *Verifier::Make(options_);
  VerifierInput input = Input();
  input.messages = [] { return R"([{"content": "one"}, {"tool_calls": [{"id": "c1"}]}])"; };
  EXPECT_EQ(verifier_->Verify(input)->reward, 1);
  input.messages = [] { return absl::UnavailableError("no gateway"); };
  EXPECT_TRUE(absl::IsUnavailable(verifier_->Verify(input).status()));
}

TEST_F(PythonTest, GetsTheFilesOfTheWorkFolder) {
  options_.python.files = true;
  Write("def score(files):\n    return files == {'out/result.txt': b'42\\n'}\n");
  verifier_ = *Verifier::Make(options_);
  const auto sandbox = *substrate_->Prepare();
  ASSERT_TRUE(sandbox->WriteFile("out/result.txt", "42\n").ok());
  VerifierInput input = Input();
  input.sandbox = sandbox.get();
  const auto verdict = verifier_->Verify(input);
  ASSERT_TRUE(verdict.ok()) << verdict.status();
  EXPECT_EQ(verdict->reward, 1);
}

TEST_F(PythonTest, FilesBeyondTheLimitAreTheAgentsFault) {
  options_.python.files = true;
  Write("def score(files):\n    return 1\n");
  verifier_ = *Verifier::Make(options_);
  const auto sandbox = *substrate_->Prepare();
  ASSERT_TRUE(sandbox->WriteFile("large", std::string(17 << 20, 'x')).ok());
  VerifierInput input = Input();
  input.sandbox = sandbox.get();
  EXPECT_TRUE(absl::IsDataLoss(verifier_->Verify(input).status()));
}

TEST_F(PythonTest, AnExceptionIsAnErrorWithTheUsersOwnStackTrace) {
  Write(
      "def check(answer):\n    print('comparing')\n    return int(answer + 'x')\n\ndef score(answer):\n    return "
      "check(answer)\n");
  const std::string fault(Score().status().message());
  EXPECT_THAT(fault, AllOf(HasSubstr("ValueError"), HasSubstr(folder_.path() + "/rewards.py\", line 3, in check"),
                           HasSubstr("return int(answer + 'x')"), HasSubstr("it printed: comparing")));
  EXPECT_THAT(fault, Not(HasSubstr("<string>")));  // no frames of the worker itself
}

TEST_F(PythonTest, WhatItPrintsChangesNothing) {
  EXPECT_EQ(Score("print('{\"result\": 0}')\n    import os; os.write(1, b'{}\\n')\n    return 1")->reward, 1);
}

TEST_F(PythonTest, AnythingElseThanANumberIsAnError) {
  for (const char* value : {"None", "'1'", "float('nan')", "float('inf')", "[1]", "object()", "{}", "{'reward': 'one'}",
                            "{'right': float('nan')}", "1e300"}) {
    const auto verdict = Score(absl::StrCat("return ", value));
    EXPECT_FALSE(verdict.ok()) << value;
    EXPECT_THAT(std::string(verdict.status().message()), HasSubstr("rewards.py:score")) << value;
  }
}

TEST_F(PythonTest, ACallThatHangsEndsAtItsTimeLimitAndHarmsNoLaterOne) {
  options_.python.timeout_s = 0.5;
  Write("import time\ndef score(answer):\n    time.sleep(1000)\n");
  const auto late = Score();
  EXPECT_TRUE(absl::IsDeadlineExceeded(late.status())) << late.status();
  EXPECT_THAT(std::string(late.status().message()), HasSubstr("rewards.py:score did not return within 0.5 s"));
  Write("def score(answer):\n    return 1\n");
  EXPECT_EQ(Score()->reward, 1);
}

TEST_F(PythonTest, AProcessThatDiesIsAnErrorThatSaysHow) {
  EXPECT_THAT(Fault("import os, sys; print('gone', file=sys.__stderr__); sys.__stderr__.flush(); os._exit(3)"),
              AllOf(HasSubstr("verifier.python.interpreter (python3)"), HasSubstr("exited with 3"), HasSubstr("gone")));
}

TEST_F(PythonTest, KeepsItsProcessUntilAFileChanges) {
  Write("calls = 0\ndef score(answer):\n    global calls\n    calls += 1\n    return calls\n");
  EXPECT_EQ(Score()->reward, 1);
  EXPECT_EQ(Score()->reward, 2);
  Write("calls = 10\ndef score(answer):\n    global calls\n    calls += 1\n    return calls\n");
  EXPECT_EQ(Score()->reward, 11);
}

TEST_F(PythonTest, ImportsItsNeighborsAndReadsThemAgainWhenTheyChange) {
  Write("points = 3\n", "helpers.py");
  Write("import helpers\ndef score(answer):\n    return helpers.points\n");
  EXPECT_EQ(Score()->reward, 3);
  Write("points = 4\n", "helpers.py");
  EXPECT_EQ(Score()->reward, 4);
}

TEST_F(PythonTest, AModuleOfTheInterpreterNeedsNoFile) {
  options_.python.function = "math:fsum";
  EXPECT_THAT(std::string(Score().status().message()), HasSubstr("math:fsum"));  // it has no argument with that name
  options_.python.function = "no_such_package.rewards:score";
  verifier_ = nullptr;
  EXPECT_THAT(std::string(Score().status().message()), HasSubstr("No module named 'no_such_package'"));
}

TEST_F(PythonTest, AFunctionThatCannotRunIsFoundAtTheStart) {
  const auto fault = [this] {
    return std::string((*Verifier::Make(options_))->TryProgram(*substrate_, folder_.path()).message());
  };
  EXPECT_THAT(fault(), AllOf(HasSubstr("verifier.python.function"), HasSubstr("/rewards.py is not a file")));
  Write("def score(answer:\n");
  EXPECT_THAT(fault(), AllOf(HasSubstr("SyntaxError"), HasSubstr("rewards.py\", line 1")));
  Write("def other(answer):\n    return 1\n");
  EXPECT_THAT(fault(), HasSubstr("rewards.py has no function score"));
  Write("def score(files):\n    return 1\n");
  EXPECT_THAT(fault(), HasSubstr("an argument files, which does not exist"));
  options_.python.interpreter = "no-such-python";
  Write("def score(answer):\n    return 1\n");
  EXPECT_THAT(fault(), HasSubstr("no-such-python"));
  options_.python.interpreter = "python3";
  EXPECT_EQ(fault(), "");
}

TEST_F(PythonTest, TheFunctionsNameHasTwoParts) {
  for (const char* name : {"", "rewards.py", ":score", "rewards.py:", "a:b/c"}) {
    options_.python.function = name;
    EXPECT_THAT(std::string(Verifier::Make(options_).status().message()), HasSubstr("FILE.py:NAME")) << name;
  }
}

class PythonTermTest : public PythonTest {
 protected:
  PythonTermTest() {
    group_.set_group_id(3);
    for (const double outcome : {1.0, 0.0, 0.5}) AddCall(AddEpisode(group_, outcome), 4);
    term_.kind = "python";
  }
  absl::StatusOr<std::vector<absl::StatusOr<TermResult>>> Judge(const std::string& text) {
    Write(text);
    auto& own = term_.Of<PythonScoreOptions>();
    own.function = folder_.path() + "/rewards.py:score";
    own.interpreter = "python3";
    return (*MakeTerm(term_, {.substrate = substrate_}))->Judge(*FactsOf(group_, 0, 100));
  }
  v1::Group group_;
  TermOptions term_;
};

TEST_F(PythonTermTest, ScoresAWholeGroup) {
  const auto results = Judge(
      "def score(episodes, group_id):\n"
      "    best = max(one['outcome'] for one in episodes)\n"
      "    call = episodes[2]['calls'][0]['call_id']\n"
      "    return [group_id + best - episodes[0]['outcome'], None, {'score': 2, 'detail': 'ok', 'calls': {call: "
      "0.5}}]\n");
  ASSERT_TRUE(results.ok()) << results.status();
  EXPECT_EQ((*results)[0]->value, 3);
  EXPECT_FALSE((*results)[1].ok());
  EXPECT_EQ((*results)[2]->value, 2);
  EXPECT_EQ((*results)[2]->detail, "ok");
  EXPECT_EQ((*results)[2]->calls.at("episode2-call0"), 0.5);
}

TEST_F(PythonTermTest, AFaultIsAnErrorOfEveryEpisode) {
  for (const auto& [body, fault] : std::map<std::string, std::string>{{"return [1, 2]", "2 scores for 3 episodes"},
                                                                      {"return 1", "without a list"},
                                                                      {"raise KeyError('x')", "KeyError: 'x'"}}) {
    const auto results = Judge("def score(episodes):\n    " + body + "\n");
    ASSERT_TRUE(results.ok()) << results.status();
    for (const auto& result : *results) EXPECT_THAT(std::string(result.status().message()), HasSubstr(fault)) << body;
  }
}

}  // namespace
}  // namespace ingot::reward
