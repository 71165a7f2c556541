#include "reward/verifiers/code.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "base/json.h"
#include "reward/verifiers/answer_verifier.h"
#include "reward/verifiers/fenced_blocks.h"
#include "sandbox/trial.h"

namespace ingot::reward {
namespace {

using base::json::value;
using sandbox::Template;

constexpr int64_t kTestOutputBytes = 4 << 20;

// Reads a word from stdin, runs the program and then the test in one interpreter, and prints the word. A program that
// ends the interpreter early fails because the word is not printed.
constexpr std::string_view kPythonHarness = R"(import sys
def run(path, word, test):
    space = {'__name__': 'solution', '__file__': path}
    exec(compile(open(path).read(), path, 'exec'), space)
    exec(compile(test, 'test', 'exec'), space)
    sys.stdout.flush()
    sys.__stdout__.write('\n' + word + '\n')
run(sys.argv[1], sys.stdin.readline().strip(), sys.stdin.read())
)";

struct CodeTest {
  std::string input, output;
  std::optional<std::string> code;
};

std::string RandomWord() {
  std::random_device device;
  return absl::StrCat("passed-", absl::Hex(device(), absl::kZeroPad8), absl::Hex(device(), absl::kZeroPad8),
                      absl::Hex(device(), absl::kZeroPad8));
}

// Strips whitespace at the ends of lines, and drops empty lines at the end.
std::string Comparable(const std::string& text) {
  std::string lines;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    absl::StrAppend(&lines, absl::StripTrailingAsciiWhitespace(line), "\n");
  }
  return std::string(absl::StripTrailingAsciiWhitespace(lines));
}

absl::StatusOr<std::vector<CodeTest>> ParseTests(const std::string& text, const CodeOptions& options) {
  const auto wrong = [](const std::string& what) {
    return absl::InvalidArgumentError(absl::StrCat("verifier.code.tests: ", what));
  };
  const auto parsed = base::ParseJson(text);
  if (!parsed.ok()) return wrong(std::string(parsed.status().message()));
  if (!parsed->is_array() || parsed->get_array().empty()) return wrong("not a list with at least one test");
  if (static_cast<int64_t>(parsed->get_array().size()) > options.max_tests) {
    return wrong(absl::StrCat(parsed->get_array().size(), " tests, more than code.max_tests, ", options.max_tests));
  }
  std::vector<CodeTest> tests;
  for (const value& item : parsed->get_array()) {
    const auto string_at = [&item](std::string_view key) {
      const value* field = base::Find(item, key);
      return field != nullptr && field->is_string() ? std::optional(std::string(field->get_string())) : std::nullopt;
    };
    CodeTest test{string_at("input").value_or(""), string_at("output").value_or(""), string_at("code")};
    if (!test.code.has_value() && !string_at("output").has_value()) {
      return wrong(absl::StrCat("test ", tests.size(), " has neither 'output' nor 'code' as a string"));
    }
    tests.push_back(std::move(test));
  }
  return tests;
}

class CodeVerifier final : public AnswerVerifier {
 public:
  CodeVerifier(VerifierOptions options, Template tests, std::vector<Template> argv)
      : AnswerVerifier(std::move(options)), tests_(std::move(tests)), argv_(std::move(argv)) {
    limits_.wall_time = std::chrono::nanoseconds(static_cast<int64_t>(options_.timeout_s * 1e9));
    limits_.output_bytes = kTestOutputBytes;
    limits_.memory_bytes = options_.code.memory_bytes;
    limits_.file_bytes = 64 << 20;
  }

 private:
  absl::StatusOr<std::vector<CodeTest>> TestsOf(const VerifierInput& input) const {
    const auto text = tests_.Render(VariablesOf(input));
    if (!text.ok()) return base::Annotate(text.status(), "verifier.code.tests");
    return ParseTests(*text, options_.code);
  }

  absl::StatusOr<sandbox::Command> CommandFor(const std::string& file, const std::string& cwd) const {
    sandbox::Command command;
    for (const Template& argument : argv_) {
      INGOT_ASSIGN_OR_RETURN(std::string text, argument.Render({.text = {{"file", file}, {"cwd", cwd}}, .json = {}}));
      command.argv.push_back(std::move(text));
    }
    command.env = sandbox::InheritedEnvironment({"PATH", "LANG", "LC_ALL", "TZ"});
    return command;
  }

  absl::StatusOr<sandbox::Command> Preflight(const VerifierInput& input) const override {
    INGOT_RETURN_IF_ERROR(TestsOf(input).status());
    return CommandFor(input.workdir + "/" + options_.code.file, input.cwd);
  }

  absl::Status TryProgram(sandbox::Substrate& substrate, const std::string& cwd) const override {
    INGOT_ASSIGN_OR_RETURN(const sandbox::Command command, CommandFor(options_.code.file, cwd));
    INGOT_RETURN_IF_ERROR(base::Annotate(sandbox::TryInterpreter(substrate, command), "verifier.code.command"));
    if (!sandbox::PrintsOne(command.argv[0]).empty()) has_started_ = true;
    return absl::OkStatus();
  }

  absl::StatusOr<Verdict> Judge(const std::string& answer, const VerifierInput& input) const override {
    INGOT_ASSIGN_OR_RETURN(const std::vector<CodeTest> tests, TestsOf(input));
    if (input.substrate == nullptr) return absl::InternalError("there is no substrate to run the code's tests on");
    const std::string program = ProgramOf(answer);
    double passed = 0, timed_out = 0;
    std::string first_failure;
    for (size_t i = 0; i < tests.size(); ++i) {
      INGOT_ASSIGN_OR_RETURN(const TestResult result, Run(tests[i], program, input));
      if (result.failure.empty()) {
        passed += 1;
        continue;
      }
      if (result.timed_out) timed_out += 1;
      if (first_failure.empty()) first_failure = absl::StrCat("; test ", i, " ", result.failure);
      if (options_.code.score == "all") break;  // the other tests cannot change the score
    }
    const double count = static_cast<double>(tests.size());
    return Verdict{.reward = options_.code.score == "fraction" ? passed / count
                             : passed == count                 ? 1.0
                                                               : 0.0,
                   .signals = {{"tests_passed", passed / count}, {"tests_timed_out", timed_out / count}},
                   .facts = {},
                   .detail = absl::StrCat(passed, " of ", tests.size(), " tests passed", first_failure)};
  }

  struct TestResult {
    std::string failure;  // empty = passed
    bool timed_out = false;
  };

  absl::StatusOr<TestResult> Run(const CodeTest& test, const std::string& program, const VerifierInput& input) const {
    INGOT_ASSIGN_OR_RETURN(const std::unique_ptr<sandbox::Sandbox> sandbox, input.substrate->Prepare());
    INGOT_RETURN_IF_ERROR(sandbox->WriteFile(options_.code.file, program));
    const std::string file = sandbox->work() + "/" + options_.code.file;
    INGOT_ASSIGN_OR_RETURN(sandbox::Command command, CommandFor(file, input.cwd));
    command.env["HOME"] = sandbox->home();
    command.env["TMPDIR"] = sandbox->tmp();
    command.working_dir = sandbox->work();
    const std::string word = RandomWord();
    if (test.code.has_value()) {
      command.argv = {command.argv[0], "-I", "-c", std::string(kPythonHarness), file};
      command.stdin_text = absl::StrCat(word, "\n", *test.code);
    } else {
      command.stdin_text = test.input;
    }
    const absl::StatusOr<sandbox::Outcome> outcome = sandbox->Run(command, limits_, input.cancel);
    if (!outcome.ok()) return base::Annotate(outcome.status(), "the code's tests did not run");
    if (outcome->ending == sandbox::Ending::kCancelled) return absl::CancelledError("the tests were cancelled");
    // Once the command has started, these codes are the program's own.
    if (!sandbox::CouldNotStart(*outcome)) {
      has_started_ = true;
    } else if (!has_started_) {
      return base::Annotate(
          absl::InternalError(sandbox::StartFault(command.argv[0], absl::StrCat(sandbox::Describe(*outcome, limits_),
                                                                                LastErrorLine(outcome->err)))
                                  .message()),
          "verifier.code.command");
    }
    if (!outcome->ok()) {
      return TestResult{absl::StrCat(sandbox::Describe(*outcome, limits_), LastErrorLine(outcome->err)),
                        outcome->ending == sandbox::Ending::kTimedOut};
    }
    const std::string printed = Comparable(outcome->out);
    if (!test.code.has_value()) {
      if (printed == Comparable(test.output)) return TestResult();
      return TestResult{absl::StrCat("printed ", Quoted(printed))};
    }
    if (printed == word || printed.ends_with("\n" + word)) return TestResult();
    return TestResult{"ended before its test finished"};
  }

  static std::string LastErrorLine(const std::string& err) {
    const std::string trimmed = Trimmed(err);
    if (trimmed.empty()) return "";
    const size_t newline = trimmed.rfind('\n');
    return absl::StrCat(": ", Quoted(newline == std::string::npos ? trimmed : trimmed.substr(newline + 1)));
  }

  const Template tests_;
  const std::vector<Template> argv_;
  sandbox::Limits limits_;
  mutable std::atomic<bool> has_started_{false};
};

}  // namespace

std::string ProgramOf(std::string_view answer) {
  const std::vector<std::string> blocks = FencedBlocks(answer);
  const auto is_program = [](const std::string& block) { return !Trimmed(block).empty(); };
  const auto last = std::find_if(blocks.rbegin(), blocks.rend(), is_program);
  return last == blocks.rend() ? std::string(answer) : *last;
}

absl::StatusOr<std::unique_ptr<const Verifier>> MakeCode(const VerifierOptions& options) {
  const CodeOptions& code = options.code;
  if (code.command.empty()) return absl::InvalidArgumentError("verifier.code.command is empty");
  if (code.file.empty()) return absl::InvalidArgumentError("verifier.code.file is empty");
  std::vector<Template> argv;
  for (const std::string& argument : code.command) {
    auto parsed = Template::Parse(argument, {"file", "cwd"});
    if (!parsed.ok()) return base::Annotate(parsed.status(), "verifier.code.command");
    argv.push_back(std::move(*parsed));
  }
  auto tests = Template::Parse(code.tests, VerifierVariables());
  if (!tests.ok()) return base::Annotate(tests.status(), "verifier.code.tests");
  return std::make_unique<CodeVerifier>(options, std::move(*tests), std::move(argv));
}

}  // namespace ingot::reward
