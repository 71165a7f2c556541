#include "reward/verifier.h"

#include <re2/re2.h>

#include <algorithm>
#include <atomic>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "base/json.h"
#include "reward/number.h"
#include "reward/verifiers/answer_verifier.h"
#include "reward/verifiers/choice.h"
#include "reward/verifiers/code.h"
#include "reward/verifiers/f_beta.h"
#include "reward/verifiers/harbor.h"
#include "reward/verifiers/math.h"
#include "reward/verifiers/math_workers.h"
#include "reward/verifiers/python.h"
#include "reward/verifiers/report.h"
#include "sandbox/template.h"
#include "sandbox/trial.h"
#include "text/unicode/unicode.h"

namespace ingot::reward {
namespace {

using base::JsonText;
using base::json::value;
using sandbox::Template;

constexpr size_t kLongestPattern = 4096;
constexpr int64_t kVerifierOutputBytes = 1 << 20;
// Maximum failures attributed to the agents if the command has not judged any episode yet.
constexpr int kMaxBreaks = 8;

Tolerance ToleranceOf(const VerifierOptions& options) {
  return {.absolute = options.tolerance, .relative = options.relative_tolerance};
}

class ExactVerifier final : public ExpectedVerifier {
  using ExpectedVerifier::ExpectedVerifier;
  absl::StatusOr<Verdict> Compare(const std::string& answer, const std::string& expected) const override {
    const std::string said = Trimmed(answer), right = Trimmed(expected);
    return Judged(options_.ignore_case ? absl::EqualsIgnoreCase(said, right) : said == right,
                  absl::StrCat("answered ", Quoted(said), ", expected ", Quoted(right)));
  }
};

class NumericVerifier final : public ExpectedVerifier {
  using ExpectedVerifier::ExpectedVerifier;
  absl::Status CheckExpected(const std::string& expected) const override {
    if (ParseWrittenNumber(expected).has_value()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("verifier.expected is ", Quoted(expected), ", which is not a number"));
  }
  absl::StatusOr<Verdict> Compare(const std::string& answer, const std::string& expected) const override {
    const std::optional<Number> right = ParseWrittenNumber(expected);  // CheckExpected has parsed it
    const std::optional<Number> said = ParseWrittenNumber(answer);
    if (!said.has_value()) return Malformed(absl::StrCat("the answer ", Quoted(answer), " is not a number"));
    return Judged(IsNear(*said, *right, ToleranceOf(options_)),
                  absl::StrCat("answered ", Quoted(Trimmed(answer)), ", expected ", Quoted(Trimmed(expected))));
  }
};

class JsonFieldVerifier final : public ExpectedVerifier {
  using ExpectedVerifier::ExpectedVerifier;
  absl::StatusOr<Verdict> Compare(const std::string& answer, const std::string& expected) const override {
    const std::string trimmed = Trimmed(answer);
    const auto parsed = base::ParseJson(trimmed);
    if (!parsed.ok()) return Malformed(absl::StrCat("the answer is ", parsed.status().message()));
    const JsonText whole(trimmed);
    const std::optional<JsonText> said = options_.field.empty() ? whole : whole.At(options_.field);
    if (!said.has_value()) return Malformed(absl::StrCat("the answer has no value at '", options_.field, "'"));
    return Judged(Equal(*said, expected),
                  absl::StrCat("answered ", Quoted(sandbox::AsText(*said)), ", expected ", Quoted(expected)));
  }
  bool Equal(const JsonText& said, const std::string& expected) const {
    if (said.is_string()) return said.string() == expected;
    return base::ParseJson(expected).ok() && Equal(said, JsonText(expected));
  }
  bool Equal(const JsonText& said, const JsonText& right) const {
    if (said.is_number() && right.is_number()) {
      const std::optional<Number> a = ParseNumber(said.text()), b = ParseNumber(right.text());
      return a.has_value() && b.has_value() && IsNear(*a, *b, ToleranceOf(options_));
    }
    if (said.is_array() && right.is_array()) {
      const std::vector<JsonText> a = said.items(), b = right.items();
      return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                        [this](const JsonText& x, const JsonText& y) { return Equal(x, y); });
    }
    if (!said.is_object() || !right.is_object()) return said.Compact() == right.Compact();
    const auto fields = said.fields();
    const auto list = right.fields();
    const std::map<std::string, JsonText> wanted(list.begin(), list.end());
    return fields.size() == wanted.size() && std::all_of(fields.begin(), fields.end(), [&](const auto& field) {
             const auto found = wanted.find(field.first);
             return found != wanted.end() && Equal(field.second, found->second);
           });
  }
};

// RE2 reads UTF-8. It never backtracks, so matching takes linear time for every pattern.
absl::StatusOr<std::unique_ptr<const RE2>> Compile(const std::string& pattern) {
  if (pattern.size() > kLongestPattern) {
    return absl::InvalidArgumentError(
        absl::StrCat("verifier.pattern ", Quoted(pattern), " is longer than ", kLongestPattern, " bytes"));
  }
  RE2::Options options;
  options.set_log_errors(false);
  auto regex = std::make_unique<const RE2>(pattern, options);
  if (regex->ok()) return regex;
  return absl::InvalidArgumentError(
      absl::StrCat("verifier.pattern ", Quoted(pattern), " does not compile: ", regex->error(),
                   "; write it in RE2's syntax, which has no back-references and no lookaround"));
}

class RegexVerifier final : public AnswerVerifier {
 public:
  RegexVerifier(VerifierOptions options, Template pattern, std::unique_ptr<const RE2> fixed)
      : AnswerVerifier(std::move(options)), pattern_(std::move(pattern)), fixed_(std::move(fixed)) {}

 private:
  absl::StatusOr<Verdict> Judge(const std::string& answer, const VerifierInput& input) const override {
    if (fixed_ != nullptr) return Match(answer, *fixed_);
    INGOT_ASSIGN_OR_RETURN(const std::unique_ptr<const RE2> regex, PatternOf(input));
    return Match(answer, *regex);
  }
  absl::StatusOr<sandbox::Command> Preflight(const VerifierInput& input) const override {
    if (fixed_ == nullptr) INGOT_RETURN_IF_ERROR(PatternOf(input).status());
    return sandbox::Command();
  }
  absl::StatusOr<std::unique_ptr<const RE2>> PatternOf(const VerifierInput& input) const {
    const auto pattern = pattern_.Render(VariablesOf(input));
    if (!pattern.ok()) return base::Annotate(pattern.status(), "verifier.pattern");
    return Compile(*pattern);
  }
  static Verdict Match(const std::string& answer, const RE2& regex) {
    const std::string said = Trimmed(answer);
    // Otherwise, RE2 would let '.' match some bytes that are not UTF-8.
    if (!text::IsValidUtf8(said)) return Judged(false, absl::StrCat("answered ", Quoted(said), ", which is not UTF-8"));
    const bool matches = RE2::FullMatch(said, regex);
    return Judged(matches, absl::StrCat("answered ", Quoted(said), matches ? ", which matches" : ", no match"));
  }
  const Template pattern_;
  const std::unique_ptr<const RE2> fixed_;  // null = the pattern has variables and is compiled for each answer
};

class ReportedVerifier final : public AnswerVerifier {
  using AnswerVerifier::AnswerVerifier;
  absl::StatusOr<Verdict> Judge(const std::string& answer, const VerifierInput&) const override {
    auto report = ParseReport(answer);
    if (!report.ok()) return Malformed(absl::StrCat("the agent's report is ", report.status().message()));
    if (report->detail.empty()) report->detail = "reported by the agent";
    return report;
  }
  absl::StatusOr<sandbox::Command> Preflight(const VerifierInput&) const override { return sandbox::Command(); }
};

class CommandVerifier final : public AnswerVerifier {
 public:
  CommandVerifier(VerifierOptions options, std::vector<Template> argv)
      : AnswerVerifier(std::move(options)), argv_(std::move(argv)) {
    limits_.wall_time = std::chrono::nanoseconds(static_cast<int64_t>(options_.timeout_s * 1e9));
    limits_.output_bytes = kVerifierOutputBytes;
  }

 private:
  absl::StatusOr<sandbox::Command> Preflight(const VerifierInput& input) const override {
    sandbox::Command command;
    for (const Template& argument : argv_) {
      const auto text = argument.Render(VariablesOf(input));
      if (!text.ok()) return base::Annotate(text.status(), "verifier.command");
      command.argv.push_back(*text);
    }
    command.env = EnvironmentOf(input);
    command.working_dir = input.workdir;
    return command;
  }
  // Tries the command's interpreter, because the command itself may need an episode's files.
  absl::Status TryProgram(sandbox::Substrate& substrate, const std::string& cwd) const override {
    sandbox::Command command{.argv = {}, .env = EnvironmentOf({}), .working_dir = "", .stdin_text = ""};
    const auto program = argv_[0].Render({.text = {{"cwd", cwd}}, .json = {}});
    if (!program.ok()) return absl::OkStatus();  // differs between episodes
    command.argv.push_back(*program);
    return base::Annotate(sandbox::TryInterpreter(substrate, command), "verifier.command");
  }
  absl::StatusOr<Verdict> Judge(const std::string& answer, const VerifierInput& input) const override {
    INGOT_ASSIGN_OR_RETURN(sandbox::Command command, Preflight(input));
    command.stdin_text = answer;
    if (input.sandbox == nullptr) return absl::InternalError("the verifier's command has no sandbox to run in");
    const auto outcome = input.sandbox->Run(command, limits_, input.cancel);
    if (!outcome.ok()) return base::Annotate(outcome.status(), "the verifier's command did not run");
    auto verdict = options_.reward_from == "json" ? FromJson(*outcome) : FromExitCode(*outcome);
    if (!verdict.ok()) return verdict;
    has_judged_ = true;
    absl::StrAppend(&verdict->detail, "; answered ", Quoted(Trimmed(answer)));
    return verdict;
  }

  absl::Status Broken(const sandbox::Outcome& outcome) const {
    std::string what = absl::StrCat("the verifier's command ", sandbox::Describe(outcome, limits_));
    if (outcome.ending == sandbox::Ending::kCancelled) return absl::CancelledError(what);
    if (outcome.ending == sandbox::Ending::kNoSpace) return absl::InternalError(what);
    // The sandbox's disk also holds the agent's files, so this is always the agent's fault.
    if (outcome.ending == sandbox::Ending::kDiskFull) return absl::DataLossError(what);
    absl::StrAppend(&what, "; its stderr: ", Quoted(Trimmed(outcome.err)));
    if (!has_judged_ && sandbox::CouldNotStart(outcome)) {
      return absl::InternalError(sandbox::StartFault(options_.command[0], what).message());
    }
    return BrokenContract(what);
  }
  // Only other episodes can show whether the agent's files or a wrong command caused the failure.
  absl::Status BrokenContract(const std::string& what) const {
    if (has_judged_ || ++breaks_ <= kMaxBreaks) return absl::DataLossError(what);
    return absl::InternalError(
        absl::StrCat(what, "; it failed in each of the first ", breaks_.load(), " episodes: fix verifier.command"));
  }
  bool TimedOutAsZero(const sandbox::Outcome& outcome) const {
    return options_.timeout_is_zero && outcome.ending == sandbox::Ending::kTimedOut;
  }
  absl::StatusOr<Verdict> FromExitCode(const sandbox::Outcome& outcome) const {
    if (TimedOutAsZero(outcome)) return Judged(false, "the verifier's command ran past its time limit");
    if (outcome.ending != sandbox::Ending::kExited || outcome.exit_code > 1) return Broken(outcome);
    return Judged(outcome.exit_code == 0, absl::StrCat("the verifier's command exited with ", outcome.exit_code));
  }
  absl::StatusOr<Verdict> FromJson(const sandbox::Outcome& outcome) const {
    if (TimedOutAsZero(outcome)) return Judged(false, "the verifier's command ran past its time limit");
    if (!outcome.ok()) return Broken(outcome);
    const std::string out = Trimmed(outcome.out);
    const size_t newline = out.rfind('\n');
    auto report = ParseReport(newline == std::string::npos ? out : out.substr(newline + 1));
    if (!report.ok()) {
      return BrokenContract(absl::StrCat("the last line of the verifier's command is ", report.status().message()));
    }
    if (report->detail.empty()) report->detail = "scored by the verifier's command";
    return report;
  }

  const std::vector<Template> argv_;
  sandbox::Limits limits_;
  mutable std::atomic<bool> has_judged_{false};
  mutable std::atomic<int> breaks_{0};  // failures before it has judged any episode
};

class PostedVerifier final : public Verifier {
 public:
  absl::StatusOr<Verdict> Verify(const VerifierInput&) const override {
    return Verdict{.reward = 0, .signals = {}, .facts = {}, .detail = "posted by the agent"};
  }
  absl::StatusOr<sandbox::Command> Preflight(const VerifierInput&) const override { return sandbox::Command(); }
  bool decides() const override { return false; }
};

absl::StatusOr<std::unique_ptr<const Verifier>> MakeRegex(const VerifierOptions& options) {
  if (options.pattern.empty()) return absl::InvalidArgumentError("verifier.pattern is empty; kind regex needs one");
  auto pattern = Template::Parse(options.pattern, VerifierVariables());
  if (!pattern.ok()) return base::Annotate(pattern.status(), "verifier.pattern");
  std::unique_ptr<const RE2> fixed;
  if (const auto text = pattern->Render({}); text.ok()) {  // has no variables
    INGOT_ASSIGN_OR_RETURN(fixed, Compile(*text));
  }
  return std::make_unique<RegexVerifier>(options, std::move(*pattern), std::move(fixed));
}

absl::StatusOr<std::unique_ptr<const Verifier>> MakeCommand(const VerifierOptions& options) {
  if (options.command.empty()) return absl::InvalidArgumentError("verifier.command is empty; kind command needs one");
  std::vector<Template> argv;
  for (const std::string& argument : options.command) {
    auto parsed = Template::Parse(argument, VerifierVariables());
    if (!parsed.ok()) return base::Annotate(parsed.status(), "verifier.command");
    argv.push_back(std::move(*parsed));
  }
  return std::make_unique<CommandVerifier>(options, std::move(argv));
}

}  // namespace

std::string ProgramKey(const VerifierOptions& options) {
  if (options.kind == "math") return "verifier.math.python";
  if (options.kind == "python") return "verifier.python.interpreter";
  return options.kind == "code" ? "verifier.code.command" : "verifier.command";
}

std::string ProgramAdvice(const VerifierOptions& options) { return options.kind == "math" ? kMathAdvice : ""; }

const std::vector<std::string>& VerifierVariables() {
  static const auto* const names =
      new std::vector<std::string>{"task", "task.", "workdir", "home", "episode_id", "cwd"};
  return *names;
}

absl::Status VerifierOptions::Validate() const { return Verifier::Make(*this).status(); }

absl::StatusOr<std::unique_ptr<const Verifier>> Verifier::Make(const VerifierOptions& options) {
  INGOT_RETURN_IF_ERROR(CheckVerifierBounds(options));
  if (options.kind == "regex") return MakeRegex(options);
  if (options.kind == "command") return MakeCommand(options);
  if (options.kind == "agent_reported") return std::make_unique<ReportedVerifier>(options);
  if (options.kind == "agent_posted") return std::make_unique<PostedVerifier>();
  if (options.kind == "code") return MakeCode(options);
  if (options.kind == "harbor") return MakeHarbor(options);
  if (options.kind == "python") return MakePython(options);
  auto expected = Template::Parse(options.expected, VerifierVariables());
  if (!expected.ok()) return base::Annotate(expected.status(), "verifier.expected");
  if (options.kind == "exact") return std::make_unique<ExactVerifier>(options, std::move(*expected));
  if (options.kind == "numeric") return std::make_unique<NumericVerifier>(options, std::move(*expected));
  if (options.kind == "json_field") return std::make_unique<JsonFieldVerifier>(options, std::move(*expected));
  if (options.kind == "choice") return MakeChoice(options, std::move(*expected));
  if (options.kind == "f_beta") return MakeFBeta(options, std::move(*expected));
  return MakeMath(options, std::move(*expected));
}

}  // namespace ingot::reward
