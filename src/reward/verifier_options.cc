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
      return absl::StrCat("it is an option of verifiers of kind ", absl::StrJoin(kinds, ", "),
                          ", and this one is of kind ", verifier.kind);
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
  schema.Field("max_answer_bytes", &o.max_answer_bytes, "longer answers are malformed: reward 0",
               base::InRange(1, kLargestAnswer));
  KindKeys keys(schema, o);
  keys.Of({"exact", "numeric", "json_field", "choice", "f_beta", "math"});
  keys.Field("expected", &o.expected, "template of the right answer");
  keys.Of({"exact"});
  keys.Field("ignore_case", &o.ignore_case, "ignore case, for A-Z only");
  keys.Of({"numeric", "json_field"});
  keys.Field("tolerance", &o.tolerance, "absolute, of numbers", base::NotNegative());
  keys.Field("relative_tolerance", &o.relative_tolerance, "relative to the expected number", base::NotNegative());
  keys.Of({"regex"});
  keys.Field("pattern", &o.pattern, "the whole answer must match it; RE2's syntax");
  keys.Of({"json_field"});
  keys.Field("field", &o.field, "dotted path; empty: the whole answer");
  keys.Of({"command"});
  keys.Field("command", &o.command, "argv, templates; gets the answer on stdin");
  keys.Choice("reward_from", &o.reward_from, {"exit_code", "json"}, "source of the reward");
  keys.Of({"command", "harbor", "code"});
  keys.Field("timeout_s", &o.timeout_s, "seconds; of code: of each test", base::LeftOpen(0, 1e6));
  keys.Of({"command"});
  keys.Field("timeout_is_zero", &o.timeout_is_zero, "running too long is reward 0, not an error");
  keys.Of({"choice"}, "choice");
  keys.Field("choices", &o.choice.choices, "the letters that a question may have");
  keys.Of({"f_beta"}, "f_beta");
  keys.Field("beta", &o.f_beta.beta, "above 1 recall counts more", base::LeftOpen(0, 100));
  schema.Renamed("math.float_rounding", "");
  keys.Of({"math"}, "math");
  keys.Field("python", &o.math.python,
             "the Python with the package math-verify; ${cwd} is the folder in which ingot was started");
  keys.Field("timeout_s", &o.math.timeout_s,
             "CPU seconds of one comparison (wall time: 5 times as many); past it: not equal", base::LeftOpen(0, 600));
  keys.Field("memory_bytes", &o.math.memory_bytes, "memory of one comparison; past it: not equal",
             base::AtLeast(kMinPythonBytes));
  keys.Field("workers", &o.math.workers, "Python processes at a time", base::InRange(1, 64));
  keys.Of({"code"}, "code");
  keys.Field("command", &o.code.command, "argv that runs the program, a template with ${file} and ${cwd}");
  keys.Field("file", &o.code.file, "name of the program's file");
  keys.Field("tests", &o.code.tests, "template of a JSON list of {input, output} or, for Python, {code}");
  keys.Choice("score", &o.code.score, {"all", "fraction"}, "every test, or the share that passes");
  keys.Field("memory_bytes", &o.code.memory_bytes, "address space of each process of a test; 0: no limit",
             base::NotNegative());
  keys.Field("max_tests", &o.code.max_tests, "a task with more tests is rejected", base::Positive());
  keys.Of({"python"}, "python");
  schema.Section("python", o.python);
  keys.Field("files", &o.python.files, "pass the files of the work folder as the argument `files`");
  keys.Of({"harbor"}, "harbor");
  keys.Field("tests", &o.harbor.tests, "template of the folder with test.sh; a relative one begins in ${cwd}");
  keys.Field("no_reward_is_zero", &o.harbor.no_reward_is_zero,
             "a test.sh that ends without a reward is reward 0, not an error");
  keys.Field("timeout_is_zero", &o.harbor.timeout_is_zero, "running too long is reward 0, not an error");
}

absl::Status CheckVerifierBounds(const VerifierOptions& options) {
  return base::CheckBounds<VerifierOptions>(
      options, [](base::Schema& schema, VerifierOptions& bound) { schema.Section("verifier", bound); });
}

}  // namespace ingot::reward
