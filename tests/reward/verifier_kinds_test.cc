// Verifiers of multiple choice, ids, code and Harbor tasks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <tuple>

#include "base/json.h"
#include "reward/verifier.h"
#include "reward/verifiers/choice.h"
#include "reward/verifiers/code.h"
#include "reward/verifiers/fenced_blocks.h"
#include "reward/verifiers/harbor.h"
#include "sandbox/test_sandbox.h"

namespace ingot::reward {
namespace {

using base::json::object;
using testing::HasSubstr;

class VerifierKindsTest : public testing::Test {
 protected:
  absl::StatusOr<Verdict> Score(const object& task, const std::string& answer) {
    INGOT_ASSIGN_OR_RETURN(const auto verifier, Verifier::Make(options_));
    if (substrate_ == nullptr) substrate_ = sandbox::SharedUidSubstrate(folder_.path());
    INGOT_ASSIGN_OR_RETURN(const std::unique_ptr<sandbox::Sandbox> sandbox, substrate_->Prepare(wish_));
    const std::string payload = base::PrintJson(task);
    VerifierInput input;
    input.task = payload;
    input.answer = answer;
    input.sandbox = sandbox.get();
    input.substrate = substrate_.get();
    input.workdir = workdir_.empty() ? sandbox->work() : workdir_;
    input.own_home = input.own_tmp = sandbox->tmp();
    input.cwd = folder_.path();
    return verifier->Verify(input);
  }
  double Reward(const object& task, const std::string& answer) {
    const auto verdict = Score(task, answer);
    EXPECT_TRUE(verdict.ok()) << verdict.status();
    return verdict.ok() ? verdict->reward : -1;
  }
  const sandbox::TestFolder folder_;
  std::unique_ptr<sandbox::Substrate> substrate_;
  sandbox::SandboxOptions wish_;
  std::string workdir_;  // empty = the sandbox's
  VerifierOptions options_;
};

TEST_F(VerifierKindsTest, AnAnswerThatNamesSeveralChoicesIsWrong) {
  options_.kind = "choice";
  const object task{{"answer", "B"}};
  EXPECT_EQ(Reward(task, "B"), 1);
  EXPECT_EQ(Reward(task, "b"), 1);
  EXPECT_EQ(Reward(task, "(B)"), 1);
  EXPECT_EQ(Reward(task, "The answer is B."), 1);
  EXPECT_EQ(Reward(task, R"(A dog barks, so \boxed{B})"), 1);
  EXPECT_EQ(Reward(task, "A cat is B"), 1);
  EXPECT_EQ(Reward(task, "C"), 0);
  const auto several = Score(task, "A, B or C");
  ASSERT_TRUE(several.ok());
  EXPECT_EQ(several->reward, 0);
  EXPECT_EQ(several->signals.at("several_choices"), 1);
  EXPECT_EQ(Reward(task, "A and B"), 0);
  const auto none = Score(task, "I do not know");
  ASSERT_TRUE(none.ok());
  EXPECT_TRUE(none->signals.contains("answer_malformed"));
  EXPECT_EQ(Score({{"answer", "Z"}}, "B").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(VerifierKindsTest, FBetaWeighsRecallAndReportsTheReturnedIds) {
  options_.kind = "f_beta";
  options_.f_beta.beta = 2;
  const object task{{"answer", {"a", "b", "c", "d"}}};
  // 2 of 3 ids are right, 2 of 4 are found: P 2/3, R 1/2; 5 * (1/3) / (4 * 2/3 + 1/2) = (5/3) / (19/6) = 10/19.
  const auto verdict = Score(task, R"(["a", "b", "x", "a"])");
  ASSERT_TRUE(verdict.ok()) << verdict.status();
  EXPECT_NEAR(verdict->reward, 10.0 / 19, 1e-12);
  EXPECT_NEAR(verdict->signals.at("recall"), 0.5, 1e-12);
  EXPECT_EQ(verdict->facts.at("returned"), R"(["a","b","x"])");
  EXPECT_EQ(Reward(task, "d\nc\nb\na\n"), 1);
  EXPECT_EQ(Reward(task, "[]"), 0);
  EXPECT_TRUE(Score(task, "[[1]]")->signals.contains("answer_malformed"));
  EXPECT_FALSE(Score({{"answer", base::json::array()}}, "a").ok());
}

TEST_F(VerifierKindsTest, ACommandMayReportFacts) {
  options_.kind = "command";
  options_.reward_from = "json";
  options_.command = {"sh", "-c", R"(echo '{"reward": 0.5, "facts": {"seen": ["a"]}}')"};
  const auto verdict = Score({}, "x");
  ASSERT_TRUE(verdict.ok()) << verdict.status();
  EXPECT_EQ(verdict->facts.at("seen"), R"(["a"])");
}

TEST(ProgramOfTest, TheLastFencedBlockIsTheProgram) {
  EXPECT_EQ(ProgramOf("Here:\n```python\nprint(1)\n```\nbetter:\n```\nprint(2)\n```\nDone"), "print(2)\n");
  EXPECT_EQ(ProgramOf("print(3)"), "print(3)");
}

// The examples of CommonMark 0.31.2, by their numbers.
TEST(FencedBlocksTest, ReadsTheExamplesOfCommonMark) {
  using Blocks = std::vector<std::string>;
  for (const auto& [number, text, blocks] : std::initializer_list<std::tuple<int, const char*, Blocks>>{
           {119, "```\n<\n >\n```\n", {"<\n >\n"}},
           {120, "~~~\n<\n >\n~~~\n", {"<\n >\n"}},
           {121, "``\nfoo\n``\n", {}},
           {122, "```\naaa\n~~~\n```\n", {"aaa\n~~~\n"}},
           {123, "~~~\naaa\n```\n~~~\n", {"aaa\n```\n"}},
           {124, "````\naaa\n```\n``````\n", {"aaa\n```\n"}},
           {125, "~~~~\naaa\n~~~\n~~~~\n", {"aaa\n~~~\n"}},
           {126, "```\n", {""}},
           {127, "`````\n\n```\naaa\n", {"\n```\naaa\n"}},
           {128, "> ```\n> aaa\n\nbbb\n", {"aaa\n"}},
           {129, "```\n\n  \n```\n", {"\n  \n"}},
           {130, "```\n```\n", {""}},
           {131, " ```\n aaa\naaa\n```\n", {"aaa\naaa\n"}},
           {132, "  ```\naaa\n  aaa\naaa\n  ```\n", {"aaa\naaa\naaa\n"}},
           {133, "   ```\n   aaa\n    aaa\n  aaa\n   ```\n", {"aaa\n aaa\naaa\n"}},
           {134, "    ```\n    aaa\n    ```\n", {}},
           {135, "```\naaa\n  ```\n", {"aaa\n"}},
           {136, "   ```\naaa\n  ```\n", {"aaa\n"}},
           {137, "```\naaa\n    ```\n", {"aaa\n    ```\n"}},
           {138, "``` ```\naaa\n", {}},
           {139, "~~~~~~\naaa\n~~~ ~~\n", {"aaa\n~~~ ~~\n"}},
           {140, "foo\n```\nbar\n```\nbaz\n", {"bar\n"}},
           {141, "foo\n---\n~~~\nbar\n~~~\n# baz\n", {"bar\n"}},
           {142, "```ruby\ndef foo(x)\n  return 3\nend\n```\n", {"def foo(x)\n  return 3\nend\n"}},
           {143, "~~~~    ruby startline=3 $%@#$\nend\n~~~~~~~\n", {"end\n"}},
           {144, "````;\n````\n", {""}},
           {145, "``` aa ```\nfoo\n", {}},
           {146, "~~~ aa ``` ~~~\nfoo\n~~~\n", {"foo\n"}},
           {147, "```\n``` aaa\n```\n", {"``` aaa\n"}},
           {318, "- a\n- ```\n  b\n\n\n  ```\n- c\n", {"b\n\n\n"}},
           {324, "1. ```\n   foo\n   ```\n\n   bar\n", {"foo\n"}}}) {
    EXPECT_EQ(FencedBlocks(text), blocks) << "example " << number;
  }
}

TEST(FencedBlocksTest, ABlockEndsWithItsContainerAndTabsAreColumns) {
  using Blocks = std::vector<std::string>;
  EXPECT_EQ(FencedBlocks("1. Run it:\n\n   ```python\n   def f():\n       return 1\n   ```\n2. Done\n"),
            Blocks{"def f():\n    return 1\n"});
  EXPECT_EQ(FencedBlocks("- ```\n  a\nb\n"), Blocks{"a\n"});
  EXPECT_EQ(FencedBlocks("> - ```\r\n>   a\r\n>   ```\r\n"), Blocks{"a\n"});
  EXPECT_EQ(FencedBlocks("-\t```\n\ta\n\t\tb\n\t```\n"), Blocks{"a\n\tb\n"});
  EXPECT_EQ(FencedBlocks("- ```\n\ta\n"), Blocks{"  a\n"});  // two columns of the tab are the item's
}

TEST(ProgramOfTest, FencesAreCommonMarks) {
  EXPECT_EQ(ProgramOf("```python\nprint(1)"), "print(1)\n") << "a fence that is not closed";
  EXPECT_EQ(ProgramOf("~~~\nprint(1)\n~~~"), "print(1)\n");
  EXPECT_EQ(ProgramOf("````\na = '''\n```\n'''\n````"), "a = '''\n```\n'''\n");
  const std::string docstring = "def f():\n    \"\"\"Example:\n\n    ```\n    f()\n    ```\n    \"\"\"\n";
  EXPECT_EQ(ProgramOf("```python\n" + docstring + "```\n"), docstring);
  EXPECT_EQ(ProgramOf("```\nprint(1)\n```\n```\n"), "print(1)\n") << "a fence too many";
}

TEST_F(VerifierKindsTest, AnAnswerIsANumberAsPeopleWriteIt) {
  options_.kind = "numeric";
  EXPECT_EQ(Reward({{"answer", 1234}}, "1,234"), 1);
  EXPECT_EQ(Reward({{"answer", -1234}}, "\u22121\u00a0234\u00a0"), 1);
  EXPECT_EQ(Reward({{"answer", "12,500"}}, "12500"), 1);
  EXPECT_TRUE(Score({{"answer", 1}}, "1,23")->signals.contains("answer_malformed"));
}

TEST_F(VerifierKindsTest, AProgramIsRunOnItsTests) {
  options_.kind = "code";
  options_.timeout_s = 20;
  options_.code.score = "fraction";
  const object task{{"tests",
                     {object{{"input", "3\n"}, {"output", "9"}}, object{{"input", "-4\n"}, {"output", "16\n"}},
                      object{{"code", "assert square(5) == 25"}}, object{{"code", "assert square(0) == 0"}}}}};
  const std::string right =
      "```python\nimport sys\ndef square(x): return x * x\n"
      "if __name__ == '__main__': print(square(int(input())))\n```";
  EXPECT_EQ(Reward(task, right), 1);
  // abs instead of the square: right on 0 alone.
  const std::string wrong = "def square(x): return abs(x)\nif __name__ == '__main__': print(square(int(input())))";
  EXPECT_EQ(Reward(task, wrong), 0.25);
  options_.code.score = "all";
  EXPECT_EQ(Reward(task, wrong), 0);
  EXPECT_EQ(Reward(task, right), 1);
  const auto broken = Score(task, "def square(x:");
  ASSERT_TRUE(broken.ok());
  EXPECT_EQ(broken->reward, 0);
  EXPECT_THAT(broken->detail, HasSubstr("SyntaxError"));
  EXPECT_FALSE(Score({{"tests", "none"}}, right).ok());
}

TEST_F(VerifierKindsTest, AProgramThatEndsEarlyOrHangsHasNotPassed) {
  options_.kind = "code";
  options_.timeout_s = 2;
  const object task{{"tests", {object{{"code", "assert square(5) == 25"}}}}};
  EXPECT_EQ(Reward(task, "import os\nprint('passed')\nos._exit(0)"), 0);
  EXPECT_EQ(Reward(task, "import sys\nsys.exit(0)"), 0);
  const auto hangs = Score(task, "while True: pass");
  ASSERT_TRUE(hangs.ok()) << hangs.status();
  EXPECT_EQ(hangs->reward, 0);
  EXPECT_EQ(hangs->signals.at("tests_timed_out"), 1);
}

// Programs of a folder that comes first in PATH while the test runs.
class ToolTest : public VerifierKindsTest {
 protected:
  ToolTest() {
    std::filesystem::create_directories(folder_.path() + "/tools/shims");
    std::filesystem::create_directories(folder_.path() + "/real/bin");
    setenv("PATH", absl::StrCat(shims_, ":", path_).c_str(), 1);
    options_.kind = "code";
    options_.timeout_s = 20;
  }
  ~ToolTest() override { setenv("PATH", path_.c_str(), 1); }
  void WriteShim(const std::string& script) {
    std::ofstream(shims_ + "/python3") << "#!/bin/sh\n" << script;
    std::filesystem::permissions(shims_ + "/python3", std::filesystem::perms::all);
    sandbox::SubstrateOptions options;
    options.work_root = folder_.path() + "/work";
    options.agent_uid = "shared";
    options.programs = {{"code", {"python3"}, sandbox::SearchPath(sandbox::InheritedEnvironment({"PATH"}))}};
    substrate_ = sandbox::MakeSubstrate(options).value();
  }
  const std::string path_ = getenv("PATH");
  const std::string shims_ = folder_.path() + "/tools/shims";
  const object task_{{"tests", {object{{"input", ""}, {"output", "1"}}}}};
};

// As pyenv's: the script needs files that no sandbox sees.
TEST_F(ToolTest, TheRealInterpreterBehindAShimRuns) {
  std::filesystem::create_symlink("/usr/bin/python3", folder_.path() + "/real/bin/python3");
  std::ofstream(folder_.path() + "/version") << "real\n";
  WriteShim(absl::StrCat("exec ", folder_.path(), "/$(cat ", folder_.path(), "/version)/bin/python3 \"$@\"\n"));
  EXPECT_THAT(sandbox::InheritedEnvironment({"PATH"}).at("PATH"),
              testing::StartsWith(absl::StrCat(folder_.path(), "/real/bin:", shims_, ":")));
  const auto verifier = Verifier::Make(options_).value();
  EXPECT_TRUE(verifier->TryProgram(*substrate_, "").ok()) << verifier->TryProgram(*substrate_, "");
  EXPECT_EQ(Reward(task_, "print(1)"), 1);
}

TEST_F(ToolTest, AProgramThatCannotStartIsAFaultAndNeverAWrongAnswer) {
  for (const char* const script : {"echo pyenv: No such file >&2; exit 127\n", "exit 126\n"}) {
    WriteShim(script);
    const absl::Status tried = Verifier::Make(options_).value()->TryProgram(*substrate_, "");
    EXPECT_EQ(tried.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(tried.message()), HasSubstr("verifier.code.command: 'python3' does not start"));
    EXPECT_THAT(std::string(tried.message()), HasSubstr("sandbox.visible"));
    const auto judged = Score(task_, "print(1)");
    EXPECT_EQ(judged.status().code(), absl::StatusCode::kInternal);
    EXPECT_THAT(std::string(judged.status().message()), HasSubstr("sandbox.visible"));
  }
  options_.kind = "command";
  options_.command = {"python3", "-c", "print(1)"};
  EXPECT_THAT(std::string(Verifier::Make(options_).value()->TryProgram(*substrate_, "").message()),
              HasSubstr("verifier.command: 'python3' does not start"));
  EXPECT_THAT(std::string(Score({}, "1").status().message()), HasSubstr("sandbox.visible"));
  options_.kind = "math";
  options_.math.python = "python3";
  const absl::Status math = Verifier::Make(options_).value()->TryProgram(*substrate_, "");
  EXPECT_THAT(std::string(math.message()), HasSubstr("verifier.math.python"));
  EXPECT_THAT(std::string(math.message()), HasSubstr("sandbox.visible"));
}

TEST_F(ToolTest, OnceTheCommandHasStartedACodeIsThePrograms) {
  WriteShim("exec /usr/bin/python3 \"$@\"\n");
  const auto verifier = Verifier::Make(options_).value();
  ASSERT_TRUE(verifier->TryProgram(*substrate_, "").ok());
  const std::string task = base::PrintJson(task_);
  VerifierInput input;
  input.task = task;
  input.answer = "import sys; sys.exit(127)";
  input.substrate = substrate_.get();
  const auto verdict = verifier->Verify(input);
  ASSERT_TRUE(verdict.ok()) << verdict.status();
  EXPECT_EQ(verdict->reward, 0);
}

class HarborTest : public VerifierKindsTest {
 protected:
  void SetUp() override {
    options_.kind = "harbor";
    options_.timeout_s = 30;
    wish_.binds = HarborBinds();
    sandbox::SubstrateOptions options;
    options.work_root = folder_.path() + "/work";
    substrate_ = sandbox::MakeSubstrate(options).value();
    if (!substrate_->probe_result().root_folder) GTEST_SKIP() << "/tests and /logs need namespaces";
  }
  // Scores a task whose test.sh is `script`.
  absl::StatusOr<Verdict> Run(const std::string& script, object task = {}) {
    const std::string tests = folder_.path() + "/task/tests";
    std::filesystem::create_directories(tests);
    std::ofstream(tests + "/test.sh") << script;
    std::ofstream(tests + "/expected.txt") << "42\n";
    task["tests_dir"] = "task/tests";
    return Score(task, "");
  }
};

TEST_F(HarborTest, TheRewardIsWhatTestShLeaves) {
  const auto text =
      Run("#!/bin/bash\ngrep -q 42 /tests/expected.txt && echo 0.75 > /logs/verifier/reward.txt\nexit 3\n");
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(text->reward, 0.75);
  const auto json =
      Run("echo '{\"reward\": 1, \"style\": 0.5}' > /logs/verifier/reward.json\necho 0 > /logs/verifier/reward.txt");
  ASSERT_TRUE(json.ok()) << json.status();
  EXPECT_EQ(json->reward, 1);
  EXPECT_EQ(json->signals.at("style"), 0.5);
}

TEST_F(HarborTest, ARewardIsWhatPythonsFloatReads) {
  for (const auto& [text, reward] : std::initializer_list<std::pair<const char*, double>>{
           {".75", 0.75}, {"1.", 1}, {"+0.5", 0.5}, {"05", 5}, {"-1e-1", -0.1}}) {
    const auto verdict = Run(absl::StrCat("echo ", text, " > /logs/verifier/reward.txt"));
    ASSERT_TRUE(verdict.ok()) << text << ": " << verdict.status();
    EXPECT_EQ(verdict->reward, reward) << text;
  }
  const auto quoted = Run("echo '{\"reward\": \".5\"}' > /logs/verifier/reward.json");
  ASSERT_TRUE(quoted.ok()) << quoted.status();
  EXPECT_EQ(quoted->reward, 0.5);
  EXPECT_THAT(std::string(Run("echo nan > /logs/verifier/reward.txt").status().message()),
              HasSubstr("not a valid reward"));
}

TEST_F(HarborTest, AScriptRunsByItsFirstLine) {
  const auto python =
      Run("#!/usr/bin/env python3\nimport pathlib\npathlib.Path('/logs/verifier/reward.txt').write_text(str(1 / 4))\n");
  ASSERT_TRUE(python.ok()) << python.status();
  EXPECT_EQ(python->reward, 0.25);
  const auto plain = Run("#!/bin/sh\ntest -z \"$BASH_VERSION\" && echo 1 > /logs/verifier/reward.txt");
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_EQ(plain->reward, 1);
  const auto none = Run("test -n \"$BASH_VERSION\" && echo 1 > /logs/verifier/reward.txt");
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_EQ(none->reward, 1) << "bash without a first line";
  const auto lost = Run("#!/no/such/interpreter\necho 1 > /logs/verifier/reward.txt");
  EXPECT_THAT(std::string(lost.status().message()), HasSubstr("test.sh did not run"));
}

// As it is in a container, where test.sh runs as root.
TEST_F(HarborTest, TestShMayChangeItsFilesWhateverTheirModes) {
  const std::string tests = folder_.path() + "/task/tests";
  std::filesystem::create_directories(tests + "/data");
  std::ofstream(tests + "/data/seed") << "1\n";
  constexpr auto kClosed = std::filesystem::perms::owner_write | std::filesystem::perms::group_write;
  for (const char* const each : {"/data/seed", "/data"}) {
    std::filesystem::permissions(tests + each, kClosed, std::filesystem::perm_options::remove);
  }
  const auto verdict = Run(
      "set -e; echo 2 > /tests/made; echo 3 >> /tests/data/seed; touch /tests/data/new; echo 4 > /tests/expected.txt\n"
      "echo 1 > /logs/verifier/reward.txt\n");
  std::filesystem::permissions(tests + "/data", kClosed, std::filesystem::perm_options::add);
  ASSERT_TRUE(verdict.ok()) << verdict.status();
  EXPECT_EQ(verdict->reward, 1) << verdict->detail;
}

TEST_F(HarborTest, TheTasksTimeAndVariablesAreItsOwn) {
  const auto reported = Run("test \"$A$B\" = both && echo 1 > /logs/verifier/reward.txt",
                            {{"env", {{"A", "bo"}, {"B", "x"}}}, {"verifier_env", {{"B", "th"}}}});
  ASSERT_TRUE(reported.ok()) << reported.status();
  EXPECT_EQ(reported->reward, 1);
  const auto slow = Run("sleep 30", {{"verifier_timeout_s", 0.3}});
  ASSERT_TRUE(slow.ok()) << slow.status();
  EXPECT_EQ(slow->detail, "test.sh exceeded its time limit of 0.3 s");
  EXPECT_THAT(std::string(Run("exit 0", {{"verifier_timeout_s", "long"}}).status().message()),
              HasSubstr("verifier_timeout_s is not a number"));
  EXPECT_THAT(std::string(Run("exit 0", {{"verifier_env", {{"B", 1}}}}).status().message()),
              HasSubstr("verifier_env has a value that is not a string"));
}

// An agent may have put a program of any name into the folder that it worked in.
TEST_F(HarborTest, ProgramsOfTheWorkFolderAreNotInThePath) {
  wish_.binds.push_back({"work", "/app"});
  workdir_ = "/app";
  const auto same = Run("test \"$PATH\" = /apple:/usr/bin:/bin && echo 1 > /logs/verifier/reward.txt",
                        {{"env", {{"PATH", "/app/bin:.:/app/:/apple:/usr/bin:/bin"}}}});
  ASSERT_TRUE(same.ok()) << same.status();
  EXPECT_EQ(same->reward, 1);
  const auto none = Run("test \"$PATH\" = /usr/local/bin:/usr/bin:/bin && echo 1 > /logs/verifier/reward.txt",
                        {{"env", {{"PATH", "/app/bin:."}}}});
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_EQ(none->reward, 1);
}

TEST_F(HarborTest, VariablesThatLoadCodeFromTheWorkFolderAreDropped) {
  wish_.binds.push_back({"work", "/app"});
  workdir_ = "/app";
  const object of_image{{"PYTHONPATH", "/app:/opt/lib"},
                        {"BASH_ENV", "/app/start.sh"},
                        {"ENV", "start.sh"},
                        {"LD_PRELOAD", "/app/a.so /app/b.so"},
                        {"LUA_PATH", "/app/?.lua;/usr/share/?.lua"},
                        {"NODE_OPTIONS", "--require /app/x.js"},
                        {"DATA", "/app/data"}};
  const auto seen =
      Run("test \"$PYTHONPATH|$BASH_ENV|$ENV|$LD_PRELOAD|$LUA_PATH|$NODE_OPTIONS|$DATA\" = "
          "'/opt/lib||||/usr/share/?.lua||/app/data' && echo 1 > /logs/verifier/reward.txt",
          {{"env", of_image}});
  ASSERT_TRUE(seen.ok()) << seen.status();
  EXPECT_EQ(seen->reward, 1);
  const auto named = Run("test \"$PYTHONPATH\" = /app && echo 1 > /logs/verifier/reward.txt",
                         {{"env", of_image}, {"verifier_env", {{"PYTHONPATH", "/app"}}}});
  ASSERT_TRUE(named.ok()) << named.status();
  EXPECT_EQ(named->reward, 1) << "the task asks for it in the verifier's own variables";
}

// The agent's work may end test.sh in each of these ways.
TEST_F(HarborTest, ATestThatEndsWithoutARewardIsZero) {
  wish_.disk.bytes = 32 << 20;
  for (const auto& [script, why] : std::initializer_list<std::pair<const char*, const char*>>{
           {"set -e; grep -q hi none; echo 1 > /logs/verifier/reward.txt", "test.sh exited with 2 and left no reward"},
           {"echo done; exit 0", "test.sh exited with 0 and left no reward"},
           {": > /logs/verifier/reward.txt", "left no reward"},
           {"mkdir /logs/verifier/reward.json", "left no reward"},
           {"rmdir /logs/verifier; ln -s /tests /logs/verifier", "left no reward"},
           {"kill -SEGV $$", "test.sh was killed by signal 11"},
           {"head -c 100000000 /dev/zero", "test.sh wrote more output than its limit"},
           {"head -c 60000000 /dev/zero > big; echo 1 > /logs/verifier/reward.txt",
            "exceeded its sandbox's disk limits"}}) {
    options_.harbor.no_reward_is_zero = true;
    const auto zero = Run(script);
    ASSERT_TRUE(zero.ok()) << script << ": " << zero.status();
    EXPECT_EQ(zero->reward, 0) << script;
    EXPECT_EQ(zero->signals.at("no_reward"), 1) << script;
    EXPECT_THAT(zero->detail, HasSubstr(why)) << script;
    options_.harbor.no_reward_is_zero = false;
    EXPECT_THAT(std::string(Run(script).status().message()), HasSubstr(why)) << script;
  }
}

TEST_F(HarborTest, ATestThatRunsTooLongIsZero) {
  options_.timeout_s = 0.5;
  const auto zero = Run("echo 1 > /logs/verifier/reward.txt; sleep 30");
  ASSERT_TRUE(zero.ok()) << zero.status();
  EXPECT_EQ(zero->reward, 0);
  EXPECT_EQ(zero->signals.at("tests_timed_out"), 1);
  options_.harbor.timeout_is_zero = false;
  EXPECT_EQ(Run("sleep 30").status().message(), "test.sh exceeded its time limit of 0.5 s");
}

TEST_F(HarborTest, ARewardThatWasLeftBeforeASignalCounts) {
  const auto left = Run("echo 0.5 > /logs/verifier/reward.txt; kill -9 $$");
  ASSERT_TRUE(left.ok()) << left.status();
  EXPECT_EQ(left->reward, 0.5);
}

TEST_F(HarborTest, AVerifierThatCannotJudgeIsAnErrorAndNeverAZero) {
  EXPECT_THAT(std::string(Run("echo many > /logs/verifier/reward.txt").status().message()), HasSubstr("'many'"));
  EXPECT_THAT(std::string(Run("echo '{\"a\": 1, \"b\": 2}' > /logs/verifier/reward.json").status().message()),
              HasSubstr("no number named 'reward'"));
  EXPECT_THAT(std::string(Score({{"tests_dir", "nowhere"}}, "").status().message()), HasSubstr("has no test.sh"));
}

}  // namespace
}  // namespace ingot::reward
