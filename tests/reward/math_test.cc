// The verifier of mathematics. The table below is written by hand; the column "equal" is the truth, worked on paper.
#include "reward/verifiers/math.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/json.h"
#include "reward/verifiers/math_workers.h"
#include "sandbox/test_sandbox.h"
#include "test_paths.h"

namespace ingot::reward {
namespace {

using testing::HasSubstr;

struct Pair {
  std::string expected, answer;
  bool equal;
  bool missed = false;  // known: the verifier says "not equal"
};

const std::vector<Pair>& Table() {
  static const auto* const table = new std::vector<Pair>{
      // fractions and decimals
      {R"(\frac{1}{2})", "0.5", true},
      {R"(\frac{3}{4})", "3/4", true},
      {R"(\dfrac{7}{3})", R"(\frac{14}{6})", true},
      {"-0.25", R"(-\frac14)", true},
      {R"(\frac{1}{3})", "0.333", false},
      {"2.50", "2.5", true},
      // powers, roots and expressions
      {R"(\sqrt{8})", R"(2\sqrt{2})", true},
      {R"(\frac{1}{\sqrt{2}})", R"(\frac{\sqrt{2}}{2})", true},
      {R"(\sqrt{2})", "1.41421356", false},
      {R"(2^{10})", "1024", true},
      {"x^2+2x+1", "(x+1)^2", true},
      {"x^2-1", "(x-1)(x+1)", true},
      {"x^2+1", "(x+1)^2", false},
      {R"(\pi r^2)", R"(r^2\pi)", true},
      {R"(\frac{\pi}{4})", R"(0.25\pi)", true},
      {R"(\log_{2}{8})", "3", true},
      {R"(\sin(\pi/6))", R"(\frac12)", true},
      {"a+b", "b+a", true},
      {"a-b", "b-a", false},
      {R"(\sqrt[3]{27})", "3", true},
      {"6!", "720", true},
      {R"(\binom{5}{2})", "10", true},
      // sets, intervals, tuples, matrices
      {R"(\{1,2,3\})", R"(\{3,1,2\})", true},
      {R"(\{1,2\})", R"(\{1,2,3\})", false},
      {"(1,2)", "(2,1)", false},
      {"[0,1]", R"(\left[0,1\right])", true},
      {"[0,1)", "[0,1]", false},
      {R"((-\infty,2))", R"((-\infty, 2))", true},
      {R"((-\infty,1)\cup(2,\infty))", R"((2,\infty)\cup(-\infty,1))", true},
      {R"(\begin{pmatrix}1&2\\3&4\end{pmatrix})", R"(\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix})", true},
      {R"(\begin{pmatrix}1&2\\3&4\end{pmatrix})", R"(\begin{pmatrix}1&3\\2&4\end{pmatrix})", false},
      // words, percent, units, mixed numbers, boxes
      {R"(50\%)", "0.5", true},
      {"12", R"(12\text{ cm})", true},
      {R"(1\frac{1}{2})", R"(\frac{3}{2})", true},
      {"42", R"(The sum is \boxed{42}.)", true},
      {R"(\frac{1}{2})", R"(We get $x=1$, so \boxed{\frac{1}{2}})", true},
      {"x=5", "5", true},
      // known misses of math-verify
      {"[0,1)", R"(0 \le x < 1)", true, true},
      {"-1", R"(e^{i\pi})", true, true},
      {R"(\frac{1}{3})", R"(0.\overline{3})", true, true}};
  return *table;
}

const std::string kPython = INGOT_SOURCE_DIR "/.venv/bin/python";

class MathTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(INGOT_SOURCE_DIR "/.venv/.ingot-verifiers")) {
      GTEST_SKIP() << "no math-verify: scripts/setup.sh installs it";
    }
    substrate_ = sandbox::SharedUidSubstrate(folder_.path());
    options_.kind = "math";
    options_.math.python = kPython;
    verifier_ = *Verifier::Make(options_);
  }
  absl::StatusOr<Verdict> Score(const std::string& expected, const std::string& answer) const {
    VerifierInput input;
    const std::string task = base::PrintJson(base::json::object{{"answer", expected}});
    input.task = task;
    input.answer = answer;
    input.substrate = substrate_.get();
    return verifier_->Verify(input);
  }
  const sandbox::TestFolder folder_;
  std::unique_ptr<sandbox::Substrate> substrate_;
  VerifierOptions options_;
  std::unique_ptr<const Verifier> verifier_;
};

TEST(MathTextTest, NormalisedTextsDifferWhereTheirMeaningDiffers) {
  EXPECT_EQ(NormalisedMath(R"($ \left( 1 , 2 \right) $.)"), "(1,2)");
  EXPECT_EQ(NormalisedMath(R"(\dfrac{1}{2})"), NormalisedMath(R"( \tfrac{1}{2} )"));
  EXPECT_NE(NormalisedMath("1 1/2"), NormalisedMath("11/2"));
  EXPECT_NE(NormalisedMath(R"(2 \frac{1}{2})"), NormalisedMath(R"(2\frac{1}{2})"));  // mixed, or a product
  EXPECT_EQ(MathAnswerOf(R"(first \boxed{1}, then \boxed{\frac{1}{2}} at last)"), R"(\frac{1}{2})");
  EXPECT_EQ(MathAnswerOf(R"(\boxed{\{1,2\}})"), R"(\{1,2\})");
  EXPECT_EQ(MathAnswerOf(R"(\boxed{1)"), R"(\boxed{1)");  // no end
}

TEST(MathTextTest, WhatPeopleWriteAroundMathematicsIsIgnored) {
  for (const auto& [text, plain] :
       std::initializer_list<std::pair<const char*, const char*>>{{R"(\$18.90)", "18.90"},
                                                                  {R"(-\$5)", "-5"},
                                                                  {"$5", "5"},
                                                                  {"$5$", "$5$"},
                                                                  {R"(\$3\frac{1}{2})", R"(3\frac{1}{2})"},
                                                                  {"**42**", "42"},
                                                                  {"The answer is **42**.", "The answer is 42."},
                                                                  {"**x_1** or **x_2**", "x_1 or x_2"},
                                                                  {"__7__", "7"},
                                                                  {"`x+1`", "x+1"},
                                                                  {"2**3**4", "2**3**4"},  // powers
                                                                  {"2 ** 3", "2 ** 3"},
                                                                  {"\u22125", "-5"},
                                                                  {"1\u00a0234 567", "1234567"},
                                                                  {"1 1/2", "1 1/2"},
                                                                  {"12 345 6", "12 345 6"}}) {
    EXPECT_EQ(PlainMath(text), plain) << text;
  }
  EXPECT_EQ(MathAnswerOf(R"($\boxed{1}$ and $\boxed{2}$)"), "1, 2");
  EXPECT_EQ(MathAnswerOf(R"(\boxed{9}. So \boxed{1}, \boxed{2}, or \boxed{3}.)"), "1, 2, 3");
}

TEST(MathTextTest, RationalsAreComparedExactly) {
  EXPECT_EQ(EqualRationals("0.1", "1/10"), true);
  EXPECT_EQ(EqualRationals("-3/4", R"(-\frac{3}{4})"), true);
  EXPECT_EQ(EqualRationals("012", "12"), true);
  EXPECT_EQ(EqualRationals("0.3333333333333333", "1/3"), false);
  EXPECT_EQ(EqualRationals("9007199254740993", "9007199254740992"), false);
  EXPECT_EQ(EqualRationals("1/0", "1"), std::nullopt);
  EXPECT_EQ(EqualRationals("x", "1"), std::nullopt);
  EXPECT_EQ(EqualRationals(std::string(2000, '1'), "1"), std::nullopt);
}

// All 40 at once, as agents that end together ask: they share processes.
TEST_F(MathTest, TheTableOfFortyPairs) {
  ASSERT_EQ(Table().size(), 40);
  std::vector<absl::StatusOr<Verdict>> verdicts(Table().size(), absl::UnknownError(""));
  std::vector<std::thread> threads;
  for (size_t i = 0; i < Table().size(); ++i) {
    threads.emplace_back([&, i] { verdicts[i] = Score(Table()[i].expected, Table()[i].answer); });
  }
  for (std::thread& thread : threads) thread.join();
  int right = 0;
  for (size_t i = 0; i < Table().size(); ++i) {
    const Pair& pair = Table()[i];
    SCOPED_TRACE(pair.expected + " and " + pair.answer);
    ASSERT_TRUE(verdicts[i].ok()) << verdicts[i].status();
    const bool equal = verdicts[i]->reward == 1;
    EXPECT_FALSE(equal && !pair.equal) << "a false positive";
    EXPECT_EQ(equal, pair.equal && !pair.missed);
    right += equal == pair.equal ? 1 : 0;
  }
  EXPECT_EQ(right, 37);
}

// math-verify accepts the first ones; tests/reward/peer/compare_math.py has 500 more.
TEST_F(MathTest, PricesEmphasisWordsAndSetsAreRead) {
  const auto reward = [this](const std::string& expected, const std::string& answer) {
    const auto verdict = Score(expected, answer);
    EXPECT_TRUE(verdict.ok()) << answer << ": " << verdict.status();
    return verdict.ok() ? verdict->reward : -1;
  };
  for (const auto& [expected, answer] :
       std::initializer_list<std::pair<const char*, const char*>>{{"18.90", R"(\boxed{\$18.90})"},
                                                                  {"-5", R"(-\$5)"},
                                                                  {"3.5", R"(\$3\frac{1}{2})"},
                                                                  {"42", "**42**"},
                                                                  {"42", R"(\boxed{**42**})"},
                                                                  {"42", "about 42 apples are left"},
                                                                  {"3/4", "I get 3/4"},
                                                                  {"1000", "1 000"},
                                                                  {"10", "\u20ac10"},
                                                                  {"5,7", "x = 5 or x = 7"},
                                                                  {"1,2", R"(\boxed{1} and \boxed{2})"}}) {
    EXPECT_EQ(reward(expected, answer), 1) << answer;
  }
  for (const auto& [expected, answer] : std::initializer_list<std::pair<const char*, const char*>>{
           {"7", "5 or 7"}, {"2", "(1, 2)"}, {"2", "sqrt(2)"}, {"2", R"($\boxed{1}$ and $\boxed{2}$)"}}) {
    EXPECT_EQ(reward(expected, answer), 0) << answer;
  }
}

TEST_F(MathTest, ABombIsNotEqualAndCounted) {
  for (const char* bomb : {"9^{9^{9^9}}", "10^{10^7}", "1000000!", "(x+1)^{5000}"}) {
    const auto start = std::chrono::steady_clock::now();
    const auto verdict = Score("x", bomb);
    ASSERT_TRUE(verdict.ok()) << bomb << ": " << verdict.status();
    EXPECT_EQ(verdict->reward, 0) << bomb;
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30)) << bomb;
  }
  const auto slow = Score("7", "9^{9^{9^9}}");
  ASSERT_TRUE(slow.ok()) << slow.status();
  EXPECT_EQ(slow->signals.at("verifier_timeout"), 1);
}

TEST_F(MathTest, AnAnswerWithoutMathematicsIsMalformedAndAFaultyTaskAnError) {
  const auto empty = Score("x+1", "  ");
  ASSERT_TRUE(empty.ok());
  EXPECT_TRUE(empty->signals.contains("answer_malformed"));
  EXPECT_FALSE(Score("", "5").ok());
}

// A program in place of Python, which answers one comparison and ends.
class MathWorkersTest : public testing::Test {
 protected:
  MathWorkersTest() {
    std::filesystem::create_directory(folder_.path() + "/bin");
    Write("echo ready\nread line <&1\necho '{\"equal\": true}'\n");
    sandbox::SubstrateOptions options;
    options.work_root = folder_.path() + "/sandboxes";
    options.agent_uid = "shared";
    options.visible = {folder_.path() + "/bin"};  // sandboxes do not see /tmp otherwise
    auto substrate = sandbox::LocalSubstrate::Make(options);
    EXPECT_TRUE(substrate.ok()) << substrate.status();
    if (substrate.ok()) substrate_ = *std::move(substrate);
  }
  void SetUp() override { ASSERT_NE(substrate_, nullptr); }
  void Write(const std::string& script) const {
    std::ofstream(program_) << "#!/bin/sh\n" << script;
    std::filesystem::permissions(program_, std::filesystem::perms::all);
  }
  absl::StatusOr<MathComparison> Compare(const sandbox::Cancellation* cancel = nullptr) {
    return workers_.Compare(*substrate_, program_, "x", "y", cancel);
  }
  // Waits until the program has touched $HOME/here.
  void AwaitProgram() const {
    while (true) {
      std::error_code error;
      std::filesystem::recursive_directory_iterator file(folder_.path() + "/sandboxes", error), end;
      for (; !error && file != end; file.increment(error)) {
        if (file->path().filename() == "here") return;
      }
      std::this_thread::yield();
    }
  }
  const sandbox::TestFolder folder_;
  const std::string program_ = folder_.path() + "/bin/python";
  std::unique_ptr<sandbox::Substrate> substrate_;
  MathWorkers workers_{MathOptions{}};
};

TEST_F(MathWorkersTest, AWorkerThatDiedBetweenComparisonsIsReplaced) {
  for (int i = 1; i <= 3; ++i) {
    const auto compared = Compare();
    ASSERT_TRUE(compared.ok()) << compared.status();
    EXPECT_TRUE(compared->equal);
    EXPECT_EQ(workers_.started(), i);
  }
}

TEST_F(MathWorkersTest, AProcessThatNeverAnswersIsAnErrorWithItsWords) {
  Write("echo no such package >&2\nexit 3\n");
  const auto compared = Compare();
  EXPECT_THAT(std::string(compared.status().message()), HasSubstr("exited with 3"));
  EXPECT_THAT(std::string(compared.status().message()), HasSubstr("no such package"));
}

// The program answers nothing: without a cancellation the comparison ends after more than a minute.
TEST_F(MathWorkersTest, ACancelledComparisonEnds) {
  Write("echo ready\nread line <&1\ntouch $HOME/here\nread more <&1\n");
  sandbox::Cancellation cancel;
  const std::jthread canceller([&] {
    AwaitProgram();
    cancel.Cancel();
  });
  const auto compared = Compare(&cancel);
  EXPECT_TRUE(absl::IsCancelled(compared.status())) << compared.status();
}

TEST_F(MathWorkersTest, AComparisonThatWaitsForAWorkerCanBeCancelled) {
  Write("echo ready\nread line <&1\ntouch $HOME/here\nread more <&1\n");
  sandbox::Cancellation first, second;
  std::jthread busy([&] { EXPECT_TRUE(absl::IsCancelled(Compare(&first).status())); });
  AwaitProgram();
  second.Cancel();
  EXPECT_TRUE(absl::IsCancelled(Compare(&second).status()));
  EXPECT_EQ(workers_.started(), 1);
  first.Cancel();
}

// A line of 4 MiB is more than a socket holds, and the program reads none of it.
TEST_F(MathWorkersTest, AProgramThatReadsNothingBlocksNobodyBeyondACancellation) {
  Write("echo ready\ntouch $HOME/here\nsleep 600\n");
  sandbox::Cancellation cancel;
  const std::jthread canceller([&] {
    AwaitProgram();
    cancel.Cancel();
  });
  const auto compared = workers_.Compare(*substrate_, program_, std::string(4 << 20, 'x'), "y", &cancel);
  EXPECT_TRUE(absl::IsCancelled(compared.status())) << compared.status();
}

TEST_F(MathTest, AWorkerIsKeptUntilItRests) {
  MathWorkers workers(options_.math);
  const auto compare = [&] { return workers.Compare(*substrate_, kPython, "x+1", "1+x", nullptr); };
  for (int i = 0; i < 3; ++i) {
    const auto compared = compare();
    ASSERT_TRUE(compared.ok()) << compared.status();
    EXPECT_TRUE(compared->equal);
  }
  EXPECT_EQ(workers.started(), 1);
  workers.EndIdle();
  EXPECT_TRUE(compare()->equal);
  EXPECT_EQ(workers.started(), 2);
}

TEST_F(MathTest, AMissingPackageIsAnErrorThatSaysHowToInstallIt) {
  options_.math.python = "python3";
  verifier_ = *Verifier::Make(options_);
  const auto verdict = Score("x+1", "1+x");
  if (verdict.ok()) GTEST_SKIP() << "the system's Python has math-verify";
  EXPECT_THAT(std::string(verdict.status().message()), HasSubstr("scripts/setup.sh"));
}

}  // namespace
}  // namespace ingot::reward
