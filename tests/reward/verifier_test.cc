#include "reward/verifier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <random>

#include "sandbox/test_sandbox.h"
#include "trials.h"

namespace ingot::reward {
namespace {

using testing::HasSubstr;

absl::StatusOr<Verdict> Score(const VerifierOptions& options, std::optional<std::string> answer,
                              const std::string& task = R"({"answer":"42"})") {
  INGOT_ASSIGN_OR_RETURN(const auto verifier, Verifier::Make(options));
  VerifierInput input;
  input.task = task;
  const sandbox::TestFolder folder;
  std::unique_ptr<sandbox::Substrate> substrate;
  std::unique_ptr<sandbox::Sandbox> sandbox;
  if (options.kind == "command") {
    substrate = sandbox::SharedUidSubstrate(folder.path());
    INGOT_ASSIGN_OR_RETURN(sandbox, substrate->Prepare());
  }
  input.sandbox = sandbox.get();
  input.answer = std::move(answer);
  input.no_answer_reason = "it printed nothing";
  input.workdir = "/";
  input.home = "/nowhere";
  input.own_home = "/its";
  input.own_tmp = "/own";
  input.episode_id = "ep1";
  return verifier->Verify(input);
}

VerifierOptions Kind(const std::string& kind) {
  VerifierOptions options;
  options.kind = kind;
  return options;
}

// Reward 0 because the answer is malformed or missing.
bool IsMalformed(const absl::StatusOr<Verdict>& verdict) {
  return verdict.ok() && verdict->reward == 0 && verdict->signals.contains("answer_malformed") &&
         !verdict->detail.empty();
}
bool IsZero(const absl::StatusOr<Verdict>& verdict) {
  return verdict.ok() && verdict->reward == 0 && !verdict->signals.contains("answer_malformed");
}
bool IsOne(const absl::StatusOr<Verdict>& verdict) { return verdict.ok() && verdict->reward == 1; }

TEST(VerifierTest, ExactIgnoresSpaceAroundTheAnswerOnly) {
  EXPECT_TRUE(IsOne(Score(Kind("exact"), "42")));
  EXPECT_TRUE(IsOne(Score(Kind("exact"), "  42\r\n")));
  EXPECT_TRUE(IsZero(Score(Kind("exact"), "4 2")));
  EXPECT_TRUE(IsZero(Score(Kind("exact"), "42.0")));
  EXPECT_TRUE(IsZero(Score(Kind("exact"), "")));
  VerifierOptions options = Kind("exact");
  EXPECT_TRUE(IsZero(Score(options, "PARIS", R"({"answer":"Paris"})")));
  options.ignore_case = true;
  EXPECT_TRUE(IsOne(Score(options, "PARIS", R"({"answer":"Paris"})")));
}

TEST(VerifierTest, NumericAppliesItsTolerances) {
  VerifierOptions options = Kind("numeric");
  EXPECT_TRUE(IsOne(Score(options, "42.000")));
  EXPECT_TRUE(IsOne(Score(options, "+4.2e1")));
  EXPECT_TRUE(IsZero(Score(options, "42.001")));
  options.tolerance = 0.01;
  EXPECT_TRUE(IsOne(Score(options, "42.001")));
  EXPECT_TRUE(IsZero(Score(options, "42.02")));
  options.relative_tolerance = 0.1;  // 4.2 + 0.01
  EXPECT_TRUE(IsOne(Score(options, "46.2")));
  EXPECT_TRUE(IsZero(Score(options, "46.3")));
  EXPECT_TRUE(IsOne(Score(options, "7", R"({"answer":7})")));
}

TEST(VerifierTest, IntegersAreComparedDigitByDigit) {
  VerifierOptions options = Kind("numeric");
  const std::string task = R"({"answer": 265252859812191058636308480000000})";  // 30!
  EXPECT_TRUE(IsOne(Score(options, "265252859812191058636308480000000", task)));
  EXPECT_TRUE(IsOne(Score(options, "+000265252859812191058636308480000000", task)));
  EXPECT_TRUE(IsZero(Score(options, "265252859812191058636308480000001", task)));
  EXPECT_TRUE(IsOne(Score(Kind("exact"), "265252859812191058636308480000000", task)));
  const auto near = Score(options, "9007199254740992", R"({"answer": 9007199254740993})");
  EXPECT_TRUE(IsZero(near));
  EXPECT_EQ(near->detail, "answered '9007199254740992', expected '9007199254740993'");
  EXPECT_TRUE(IsOne(Score(options, "-0", R"({"answer": 0})")));
  EXPECT_TRUE(IsZero(Score(options, "-7", R"({"answer": 7})")));
  const std::string huge = "1" + std::string(400, '0');  // beyond any double
  EXPECT_TRUE(IsOne(Score(options, huge, R"({"answer":)" + huge + "}")));
  EXPECT_TRUE(IsZero(Score(options, huge + "0", R"({"answer":)" + huge + "}")));
  options.tolerance = 2;
  EXPECT_TRUE(IsOne(Score(options, "9007199254740992", R"({"answer": 9007199254740993})")));
  EXPECT_TRUE(IsZero(Score(options, huge + "0", R"({"answer":)" + huge + "}")));
  VerifierOptions field = Kind("json_field");
  EXPECT_TRUE(IsZero(Score(field, "[9007199254740992]", R"({"answer": [9007199254740993]})")));
  EXPECT_TRUE(IsOne(Score(field, "[9007199254740993]", R"({"answer": [9007199254740993]})")));
}

TEST(VerifierTest, NumbersThatNoDoubleHoldsHaveTolerancesToo) {
  const std::string task = R"({"answer": 1)" + std::string(319, '0') + "7}";  // 10^320 + 7
  for (const char* kind : {"numeric", "json_field"}) {
    VerifierOptions options = Kind(kind);
    options.relative_tolerance = 1e-6;
    EXPECT_TRUE(IsZero(Score(options, "5", task))) << kind;
    EXPECT_TRUE(IsOne(Score(options, "1" + std::string(320, '0'), task))) << kind;
    EXPECT_TRUE(IsZero(Score(options, "1" + std::string(321, '0'), task))) << kind;
  }
}

TEST(VerifierTest, JsonComparesNumbersWithinItsToleranceAtAnyDepth) {
  VerifierOptions options = Kind("json_field");
  const std::string task = R"({"answer": {"l": [1.0, {"x": 2}], "s": "a\u00e9", "n": null}})";
  EXPECT_TRUE(IsOne(Score(options, R"({"n": null, "s": "aé", "l": [1, {"x": 2.0}]})", task)));
  EXPECT_TRUE(IsZero(Score(options, R"({"n": null, "s": "aé", "l": [1.4, {"x": 2.4}]})", task)));
  options.tolerance = 0.5;
  EXPECT_TRUE(IsOne(Score(options, R"({"n": null, "s": "aé", "l": [1.4, {"x": 2.4}]})", task)));
  EXPECT_TRUE(IsZero(Score(options, R"({"n": null, "s": "aé", "l": [1.4, {"x": 2.6}]})", task)));
  EXPECT_TRUE(IsZero(Score(options, R"({"n": null, "s": "aé", "l": [1.4]})", task)));
  EXPECT_TRUE(IsZero(Score(options, R"({"n": null, "s": "aé", "l": [1, {"x": 2}], "more": 1})", task)));
  EXPECT_TRUE(IsZero(Score(options, R"({"n": false, "s": "aé", "l": [1, {"x": 2}]})", task)));
  EXPECT_TRUE(IsZero(Score(options, R"({"n": null, "s": "aé", "l": {"0": 1, "1": {"x": 2}}})", task)));
}

TEST(VerifierTest, MalformedNumbersAreZeroAndABadTaskIsAnError) {
  for (const char* answer : {"", " ", "abc", "42 apples", "nan", "inf", "-inf", "1e999", "+-42", "0x2A", "--42", "+"}) {
    EXPECT_TRUE(IsMalformed(Score(Kind("numeric"), answer))) << answer;
  }
  EXPECT_FALSE(Score(Kind("numeric"), "42", R"({"answer":"many"})").ok());
  EXPECT_FALSE(Score(Kind("numeric"), "42", R"({"answer":"nan"})").ok());
}

TEST(VerifierTest, MissingAnswerSaysWhy) {
  for (const char* kind : {"exact", "numeric", "json_field", "agent_reported"}) {
    const auto verdict = Score(Kind(kind), std::nullopt);
    EXPECT_TRUE(IsMalformed(verdict)) << kind;
    EXPECT_THAT(verdict->detail, HasSubstr("it printed nothing"));
  }
}

TEST(VerifierTest, TooLongAnswersAreMalformed) {
  VerifierOptions options = Kind("exact");
  options.max_answer_bytes = 10;
  EXPECT_TRUE(IsMalformed(Score(options, std::string(11, '4'))));
}

TEST(VerifierTest, TaskWithoutTheExpectedFieldIsAnErrorNotAZero) {
  const auto verdict = Score(Kind("exact"), "42", R"({"question":"?"})");
  ASSERT_FALSE(verdict.ok());
  EXPECT_THAT(verdict.status().message(), HasSubstr("question"));
}

TEST(VerifierTest, RegexMatchesTheWholeAnswer) {
  VerifierOptions options = Kind("regex");
  options.pattern = "the answer is ${task.answer}[.]?";
  EXPECT_TRUE(IsOne(Score(options, "the answer is 42.\n")));
  EXPECT_TRUE(IsZero(Score(options, "I think the answer is 42")));
  options.pattern = "[0-9]{1,3}";
  EXPECT_TRUE(IsOne(Score(options, "123")));
  EXPECT_TRUE(IsZero(Score(options, "1234")));
}

TEST(VerifierTest, NoPatternTakesExponentialTimeOrTheStack) {
  VerifierOptions options = Kind("regex");
  options.pattern = "(a+)+b";
  const auto start = std::chrono::steady_clock::now();
  EXPECT_TRUE(IsZero(Score(options, std::string(2000, 'a'))));
  options.pattern = "(.*)*";
  EXPECT_TRUE(IsOne(Score(options, std::string(65000, 'x'))));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
}

TEST(VerifierTest, BadPatternsAreRejectedWhenTheVerifierIsMade) {
  for (const std::string pattern : {"", "(", "[a", "(a)\\1", "${task.answer", "${nope}"}) {
    VerifierOptions options = Kind("regex");
    options.pattern = pattern;
    EXPECT_EQ(options.Validate().code(), absl::StatusCode::kInvalidArgument) << pattern;
  }
  VerifierOptions options = Kind("regex");
  options.pattern = "${task.answer}";
  ASSERT_TRUE(options.Validate().ok());
  EXPECT_FALSE(Score(options, "x", R"({"answer":"("})").ok());  // known only with the task: an error, not a 0
}

TEST(VerifierTest, RegexMatchesCharactersNotBytes) {
  const auto matches = [](const std::string& pattern, const std::string& answer) {
    VerifierOptions options = Kind("regex");
    options.pattern = pattern;
    const auto verdict = Score(options, answer);
    EXPECT_TRUE(verdict.ok()) << verdict.status();
    return IsOne(verdict);
  };
  EXPECT_TRUE(matches("[äöü]", "ä"));
  EXPECT_FALSE(matches("[äöü]", "äö"));
  EXPECT_TRUE(matches("[а-я]+", "привет"));
  EXPECT_TRUE(matches("^.$", "é"));
  EXPECT_FALSE(matches("^.{2}$", "é"));
  EXPECT_TRUE(matches("^.{2}$", "é漢"));
  EXPECT_TRUE(matches("\\p{Greek}{3}", "αβγ"));
  EXPECT_TRUE(matches("😀+", "😀😀"));
  EXPECT_FALSE(matches(".", "a\nb"));
}

TEST(VerifierTest, NoRegexMatchesBytesThatAreNotUtf8) {
  // A lone byte, a cut character, an overlong form, half a surrogate pair, a code point beyond the last.
  for (const std::string& answer : std::vector<std::string>{"\xff", "a\xc3", "\xe0\x80\x80", "\xed\xa0\x80",
                                                            "\xf4\x90\x80\x80", std::string("\0\xc0", 2)}) {
    for (const char* pattern : {"(?s).*", "[^x]*", "\\C*", ".", "(.|\\n)+"}) {
      VerifierOptions options = Kind("regex");
      options.pattern = pattern;
      EXPECT_TRUE(IsZero(Score(options, answer))) << pattern;
    }
  }
}

TEST(VerifierTest, ALongAnswerIsShownUpToAWholeCharacter) {
  std::string answer;
  for (int i = 0; i < 40; ++i) answer += "\xE4\xBD\xA0";
  EXPECT_THAT(Score(Kind("exact"), answer)->detail, HasSubstr("'" + answer.substr(0, 78) + "...'"));
}

TEST(VerifierTest, AnErrorNamesThePatternThatDoesNotCompile) {
  // Back-reference, lookahead, a program that is too large, bytes that are not UTF-8.
  for (const std::string pattern : {"(a)\\1", "a(?=b)", "((a{100}){100}){100}", "\xff"}) {
    VerifierOptions options = Kind("regex");
    options.pattern = pattern;
    const absl::Status status = options.Validate();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << pattern;
    EXPECT_THAT(status.message(), HasSubstr("verifier.pattern '" + pattern + "'"));
  }
  VerifierOptions options = Kind("regex");
  options.pattern = std::string(4097, 'a');
  EXPECT_THAT(options.Validate().message(), HasSubstr("verifier.pattern 'aaa"));
}

TEST(VerifierTest, JsonFieldComparesValues) {
  VerifierOptions options = Kind("json_field");
  options.field = "result.0.v";
  EXPECT_TRUE(IsOne(Score(options, R"({"result":[{"v":42}]})")));
  EXPECT_TRUE(IsOne(Score(options, R"({"result":[{"v":42.0}]})")));
  EXPECT_TRUE(IsOne(Score(options, R"({"result":[{"v":"42"}]})")));
  EXPECT_TRUE(IsZero(Score(options, R"({"result":[{"v":43}]})")));
  EXPECT_TRUE(IsZero(Score(options, R"({"result":[{"v":null}]})")));
  EXPECT_TRUE(IsZero(Score(options, R"({"result":[{"v":[42]}]})")));
  EXPECT_TRUE(IsOne(Score(options, "\v{\"result\":[{\"v\":42}]}\f\n")));
  options.field = "";
  EXPECT_TRUE(IsOne(Score(options, R"({"b":1,"a":[2]})", R"({"answer":{"a":[2],"b":1}})")));
  EXPECT_TRUE(IsOne(Score(options, "true", R"({"answer":true})")));
}

TEST(VerifierTest, MalformedJsonAnswersAreZero) {
  VerifierOptions options = Kind("json_field");
  options.field = "v";
  for (const std::string& answer :
       std::vector<std::string>{"", "{", "{\"v\":}", "{}", "[]", "42", "{\"w\":1}", "\xff", std::string(60000, '[')}) {
    EXPECT_TRUE(IsMalformed(Score(options, answer))) << answer.substr(0, 20);
  }
}

TEST(VerifierTest, AgentReportedTakesANumberOrAnObject) {
  const VerifierOptions options = Kind("agent_reported");
  EXPECT_EQ(Score(options, "0.25\n")->reward, 0.25);
  EXPECT_EQ(Score(options, "-3")->reward, -3);
  const auto verdict = Score(options, R"({"reward":0.5,"signals":{"steps":4}})");
  ASSERT_TRUE(verdict.ok());
  EXPECT_EQ(verdict->reward, 0.5);
  EXPECT_EQ(verdict->signals.at("steps"), 4);
  for (const char* answer : {"", "high", "null", "[1]", "{}", R"({"reward":"1"})", R"({"reward":1e999})",
                             R"({"reward":1,"signals":[]})", R"({"reward":1,"signals":{"a":"b"}})", "1 2"}) {
    EXPECT_TRUE(IsMalformed(Score(options, answer))) << answer;
  }
}

TEST(VerifierTest, ARewardOrSignalBeyondItsBoundIsAMalformedReportThatNamesTheBound) {
  const VerifierOptions options = Kind("agent_reported");
  EXPECT_EQ(Score(options, "1e6")->reward, 1e6);
  EXPECT_EQ(Score(options, "-1e6")->reward, -1e6);
  EXPECT_EQ(Score(options, R"({"reward":1,"signals":{"time":1.7e18}})")->signals.at("time"), 1.7e18);
  for (const char* answer : {"1000001", "-1e7", "1e200", R"({"reward":1e308})"}) {
    const auto verdict = Score(options, answer);
    EXPECT_TRUE(IsMalformed(verdict)) << answer;
    EXPECT_THAT(verdict->detail, ::testing::HasSubstr("from -1e6 to 1e6")) << answer;
  }
  const auto signal = Score(options, R"({"reward":1,"signals":{"big":1e31}})");
  EXPECT_TRUE(IsMalformed(signal));
  EXPECT_THAT(signal->detail, ::testing::HasSubstr("signal 'big' is 1e+31"));
}

VerifierOptions ShellVerifier(const std::string& script, const std::string& from = "exit_code") {
  VerifierOptions options = Kind("command");
  options.command = {"/bin/sh", "-c", script, "verify", "${task.answer}"};
  options.reward_from = from;
  return options;
}

TEST(VerifierTest, SignalsThatTheGatewayWouldRejectAreAMalformedReport) {
  const auto with = [](size_t count, const std::string& name) {
    std::string signals;
    for (size_t i = 0; i < count; ++i) absl::StrAppend(&signals, i == 0 ? "" : ",", "\"", name, i, "\":1");
    return absl::StrCat(R"({"reward":1,"signals":{)", signals, "}}");
  };
  const VerifierOptions options = Kind("agent_reported");
  EXPECT_TRUE(IsOne(Score(options, with(224, "s"))));
  EXPECT_TRUE(IsMalformed(Score(options, with(225, "s"))));
  EXPECT_TRUE(IsOne(Score(options, with(1, std::string(255, 'n')))));
  EXPECT_TRUE(IsMalformed(Score(options, with(1, std::string(256, 'n')))));
  EXPECT_TRUE(IsMalformed(Score(options, R"({"reward":1,"signals":{"":1}})")));
  EXPECT_TRUE(IsMalformed(Score(options, R"({"reward":1,"signals":{"bad\nname":1}})")));
  EXPECT_TRUE(IsMalformed(Score(options, R"({"reward":1,"signals":{"\u202eevil":1}})")));
  // In a command's report it is the verifier's fault.
  EXPECT_FALSE(Score(ShellVerifier(R"(echo '{"reward":1,"signals":{"":1}}')", "json"), "x").ok());
}

TEST(VerifierTest, AgentPostedDecidesNothing) {
  const auto verifier = Verifier::Make(Kind("agent_posted"));
  ASSERT_TRUE(verifier.ok());
  EXPECT_FALSE((*verifier)->decides());
}

TEST(VerifierTest, CommandDecidesByExitCode) {
  const VerifierOptions options = ShellVerifier("read said; test \"$said\" = \"$1\"");
  EXPECT_TRUE(IsOne(Score(options, "42\n")));
  EXPECT_TRUE(IsZero(Score(options, "41\n")));
  EXPECT_TRUE(IsOne(Score(ShellVerifier("test \"$PWD$HOME$TMPDIR$INGOT_EPISODE_ID\" = //its/ownep1"), "")));
}

TEST(VerifierTest, CommandDecidesByJsonOnItsLastLine) {
  const auto verdict = Score(
      ShellVerifier(R"(echo noise; echo '{"reward":0.75,"signals":{"tests":3},"detail":"3 of 4"}'; echo)", "json"),
      "x");
  ASSERT_TRUE(verdict.ok()) << verdict.status();
  EXPECT_EQ(verdict->reward, 0.75);
  EXPECT_EQ(verdict->signals.at("tests"), 3);
  EXPECT_EQ(verdict->detail, "3 of 4; answered 'x'");
}

TEST(VerifierTest, ACommandsVerdictShowsTheAnswerThatItRead) {
  EXPECT_EQ(Score(ShellVerifier("exit 1"), "  41\n")->detail, "the verifier's command exited with 1; answered '41'");
  EXPECT_EQ(Score(ShellVerifier("exit 0"), "")->detail, "the verifier's command exited with 0; answered ''");
  EXPECT_EQ(Score(ShellVerifier(R"(echo '{"reward":1}')", "json"), "a\nb")->detail,
            "scored by the verifier's command; answered 'a b'");
  EXPECT_LT(Score(ShellVerifier("exit 0"), std::string(100'000, 'x'))->detail.size(), 400u);
}

TEST(VerifierTest, ABrokenCommandIsAnErrorNeverAZero) {
  EXPECT_FALSE(Score(ShellVerifier("echo oops >&2; exit 2"), "x").ok());
  EXPECT_THAT(Score(ShellVerifier("echo oops >&2; exit 2"), "x").status().message(), HasSubstr("oops"));
  EXPECT_FALSE(Score(ShellVerifier("kill -9 $$"), "x").ok());
  EXPECT_FALSE(Score(ShellVerifier("exit 1", "json"), "x").ok());
  EXPECT_FALSE(Score(ShellVerifier("echo 0.5 points", "json"), "x").ok());
  EXPECT_FALSE(Score(ShellVerifier("true", "json"), "x").ok());
  EXPECT_FALSE(Score(ShellVerifier("cat /dev/zero"), "x").ok());
  VerifierOptions missing = Kind("command");
  missing.command = {"no-such-verifier"};
  EXPECT_EQ(Score(missing, "x").status().code(), absl::StatusCode::kNotFound);
}

TEST(VerifierTest, AHangingCommandIsAnErrorUnlessConfiguredAsZero) {
  VerifierOptions options = ShellVerifier("sleep 1000");
  options.timeout_s = 0.1;
  EXPECT_THAT(Score(options, "x").status().message(), HasSubstr("limit of 0.1 s"));
  options.timeout_is_zero = true;
  EXPECT_TRUE(IsZero(Score(options, "x")));
}

TEST(VerifierTest, OptionErrorsNameTheOption) {
  const auto message = [](const VerifierOptions& options) { return std::string(options.Validate().message()); };
  EXPECT_THAT(message(Kind("exakt")), HasSubstr("exact, numeric"));
  VerifierOptions options = Kind("numeric");
  options.tolerance = -1;
  EXPECT_THAT(message(options), HasSubstr("tolerance"));
  options.tolerance = HUGE_VAL;
  EXPECT_THAT(message(options), HasSubstr("finite"));
  options = Kind("exact");
  options.expected = "${task_answer}";
  EXPECT_THAT(message(options), HasSubstr("${task_answer}"));
  options = ShellVerifier("x", "stdout");
  EXPECT_THAT(message(options), HasSubstr("reward_from"));
  options = ShellVerifier("x", "exit_code");
  options.command.clear();
  EXPECT_THAT(message(options), HasSubstr("verifier.command"));
  options = Kind("exact");
  options.timeout_s = 0;
  EXPECT_THAT(message(options), HasSubstr("timeout_s"));
  options = Kind("exact");
  options.max_answer_bytes = 0;
  EXPECT_THAT(message(options), HasSubstr("max_answer_bytes"));
}

// Random bytes as an answer: no crash, no error, a reward in {0, 1} or the reported one.
TEST(VerifierTest, RandomAnswersNeverCrashIt) {
  std::mt19937 random(7);
  const std::string alphabet = "{}[]\":,0123456789.eE+-truefalsn \\\n\xff\x00u";
  VerifierOptions field = Kind("json_field");
  field.field = "a.0";
  VerifierOptions regex = Kind("regex");
  regex.pattern = "([0-9]+[.]?)*";
  for (int i = 0, trials = Trials(500, 3000); i < trials; ++i) {
    std::string answer;
    for (int n = random() % 30; n > 0; --n) answer += alphabet[random() % alphabet.size()];
    for (const VerifierOptions& options : {Kind("exact"), Kind("numeric"), regex, field, Kind("agent_reported")}) {
      EXPECT_TRUE(Score(options, answer).ok());
    }
  }
}

}  // namespace
}  // namespace ingot::reward
