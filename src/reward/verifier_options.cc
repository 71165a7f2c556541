#include "reward/verifier_options.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_join.h"
#include "base/config.h"

namespace ingot::reward {
namespace {

constexpr double kLargestAnswer = 16 << 20;
constexpr double kMinPythonBytes = 128 << 20;

// Binds keys that apply only to some kinds of verifiers. Other verifiers may not set them.
class KindKeys {
 public:
  KindKeys(base::Schema& schema, const VerifierOptions& verifier) : schema_(schema), verifier_(verifier) {}

  // Makes the keys bound after this call options for these kinds, in section `section`; "" = no section.
  void Of(std::vector<std::string> kinds, const std::string& section = "") {
    kinds_ = std::move(kinds);
    section_ = section;
    if (!section.empty()) Guard(section);
  }
  template <typename T, typename... Bound>
  void Field(const std::string& key, T* field, const std::string& doc, Bound... bound) {
    schema_.Field(Key(key), field, Doc(doc), bound...);
  }
  void Choice(const std::string& key, std::string* field, const std::vector<std::string>& names,
              const std::string& doc) {
    schema_.Choice(Key(key), field, names, Doc(doc));
  }

 private:
  std::string Key(const std::string& key) {
    if (section_.empty()) Guard(key);
    return section_.empty() ? key : absl::StrCat(section_, ".", key);
  }
  std::string Doc(const std::string& doc) const { return absl::StrCat(absl::StrJoin(kinds_, ", "), ": ", doc); }
  void Guard(const std::string& keys) {
    schema_.Guard(keys, [&verifier = verifier_, kinds = kinds_]() -> std::string {
      if (std::find(kinds.begin(), kinds.end(), verifier.kind) != kinds.end()) return "";
      return absl::StrCat("this option needs a verifier of kind ", absl::StrJoin(kinds, ", "),
                          ", but this one has kind ", verifier.kind);
    });
  }

  base::Schema& schema_;
  const VerifierOptions& verifier_;
  std::vector<std::string> kinds_;
  std::string section_;
};

}  // namespace

void Bind(base::Schema& schema, VerifierOptions& o) {
  schema.Choice("kind", &o.kind,
                {"exact", "numeric", "regex", "json_field", "choice", "f_beta", "math", "code", "command", "python",
                 "harbor", "agent_reported", "agent_posted"},
                "rule that turns the outcome into a reward");
  schema.Field("max_answer_bytes", &o.max_answer_bytes,
               "maximum size of an answer; a longer answer is malformed and gets reward 0",
               base::InRange(1, kLargestAnswer));
  KindKeys keys(schema, o);
  keys.Of({"exact", "numeric", "json_field", "choice", "f_beta", "math"});
  keys.Field("expected", &o.expected, "template for the correct answer");
  keys.Of({"exact"});
  keys.Field("ignore_case", &o.ignore_case, "ignore case, for A-Z only");
  keys.Of({"numeric", "json_field"});
  keys.Field("tolerance", &o.tolerance, "absolute tolerance for numbers", base::NotNegative());
  keys.Field("relative_tolerance", &o.relative_tolerance, "tolerance relative to the expected number",
             base::NotNegative());
  keys.Of({"regex"});
  keys.Field("pattern", &o.pattern, "RE2 pattern that the whole answer must match");
  keys.Of({"json_field"});
  keys.Field("field", &o.field, "dotted path to the value in the answer; empty: the whole answer");
  keys.Of({"command"});
  keys.Field("command", &o.command, "argv, with templates; the command gets the answer on stdin");
  keys.Choice("reward_from", &o.reward_from, {"exit_code", "json"}, "source of the reward");
  keys.Of({"command", "harbor", "code"});
  keys.Field("timeout_s", &o.timeout_s, "timeout in seconds; for code, of each test", base::LeftOpen(0, 1e6));
  keys.Of({"command"});
  keys.Field("timeout_is_zero", &o.timeout_is_zero, "give reward 0 after a timeout, instead of an error");
  keys.Of({"choice"}, "choice");
  keys.Field("choices", &o.choice.choices, "letters that a question may use for its choices");
  keys.Of({"f_beta"}, "f_beta");
  keys.Field("beta", &o.f_beta.beta, "weight of recall compared with precision; above 1: recall counts more",
             base::LeftOpen(0, 100));
  schema.Renamed("math.float_rounding", "");
  keys.Of({"math"}, "math");
  keys.Field("python", &o.math.python,
             "Python interpreter that has the package math-verify; ${cwd} is the folder where ingot was started");
  keys.Field(
      "timeout_s", &o.math.timeout_s,
      "CPU seconds that one comparison may use (5 times as much wall time); after that the answers count as different",
      base::LeftOpen(0, 600));
  keys.Field("memory_bytes", &o.math.memory_bytes,
             "memory that one comparison may use; above that the answers count as different",
             base::AtLeast(kMinPythonBytes));
  keys.Field("workers", &o.math.workers, "number of Python processes", base::InRange(1, 64));
  keys.Of({"code"}, "code");
  keys.Field("command", &o.code.command, "argv that runs the program, with the templates ${file} and ${cwd}");
  keys.Field("file", &o.code.file, "file name of the program");
  keys.Field("tests", &o.code.tests, "template for a JSON list of {input, output} or, for Python, {code}");
  keys.Choice("score", &o.code.score, {"all", "fraction"},
              "all: the program must pass all tests; fraction: the share of tests that it passes");
  keys.Field("memory_bytes", &o.code.memory_bytes, "address space of each process of a test; 0: no limit",
             base::NotNegative());
  keys.Field("max_tests", &o.code.max_tests, "maximum number of tests per task; a task with more is rejected",
             base::Positive());
  keys.Of({"python"}, "python");
  schema.Section("python", o.python);
  keys.Field("files", &o.python.files, "pass the work folder's files as the argument `files`");
  keys.Of({"harbor"}, "harbor");
  keys.Field("tests", &o.harbor.tests, "template for the folder with test.sh, relative to ${cwd}");
  keys.Field("no_reward_is_zero", &o.harbor.no_reward_is_zero,
             "give reward 0 if test.sh ends without a reward, instead of an error");
  keys.Field("timeout_is_zero", &o.harbor.timeout_is_zero, "give reward 0 after a timeout, instead of an error");
}

absl::Status CheckVerifierBounds(const VerifierOptions& options) {
  return base::CheckBounds<VerifierOptions>(
      options, [](base::Schema& schema, VerifierOptions& bound) { schema.Section("verifier", bound); });
}

}  // namespace ingot::reward
