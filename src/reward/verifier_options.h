// The options of a verifier. Bind declares each key with its meaning, bounds and choices.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "reward/python/python_options.h"

namespace ingot::base {
class Schema;
}

namespace ingot::reward {

// Options of single kinds.
struct ChoiceOptions {
  std::string choices = "ABCDE";  // A to Z; 2 to 26 of them
};

struct FBetaOptions {
  double beta = 1;
};

struct MathOptions {
  std::string python = "${cwd}/.venv/bin/python";
  double timeout_s = 2;
  int64_t memory_bytes = 512LL << 20;
  int32_t workers = 1;
};

struct CodeOptions {
  std::vector<std::string> command = {"python3", "-I", "${file}"};
  std::string file = "solution.py";
  std::string tests = "${task.tests}";  // JSON (verifiers/code.h)
  std::string score = "all";
  int64_t memory_bytes = 1LL << 30;
  int32_t max_tests = 256;
};

// The agent's work may end a test.sh early or make it hang, so both are reward 0 unless the options say otherwise.
struct HarborOptions {
  std::string tests = "${task.tests_dir}";
  bool no_reward_is_zero = true;
  bool timeout_is_zero = true;
};

// A template is text with ${task}, ${task.FIELD}, ${workdir}, ${home} or ${episode_id} in it (sandbox/template.h).
struct VerifierOptions {
  // exact           The answer is `expected`, apart from white space around it.
  // numeric         The answer is a number within the tolerances of `expected`, as people write it: "1,234".
  // regex           The whole answer matches `pattern`.
  // json_field      The answer is JSON whose `field` equals `expected`: lists in order, objects by their fields.
  // choice          The answer names one of the choices of a multiple-choice question: `expected`. An answer that names
  //                 several is wrong (verifiers/choice.h).
  // f_beta          The answer is a list of ids, and the reward is its F-beta against `expected` (verifiers/f_beta.h).
  // math            The answer equals `expected` as mathematics (verifiers/math.h).
  // code            The answer is a program, and the reward counts the task's tests that it passes (verifiers/code.h).
  // python          A function of the user decides (verifiers/python.h).
  // harbor          tests/test.sh of a Harbor task decides (verifiers/harbor.h).
  // command         `command` decides. It runs after the agent, in the agent's sandbox and work folder, the answer on stdin.
  //                 It has its own HOME and TMPDIR, so files that the agent left in ${home} do not decide by accident.
  // agent_reported  The answer is the reward: a number, or {"reward": number, "signals": {name: number},
  //                 "facts": {name: JSON}}.
  //                 tree/reward_bounds.h limits the numbers, tree/signal_bounds.h the count and names of signals.
  // agent_posted    The agent posts its own reward, and there is nothing to verify. An agent that does not post a
  //                 reward has no answer.
  std::string kind = "exact";
  std::string expected = "${task.answer}";
  bool ignore_case = false;
  // numeric, and numbers at any depth of json_field:
  //   |answer - expected| <= tolerance + relative_tolerance * |expected|
  // Numbers that do not fit doubles, such as long integers, are compared exactly (reward/number.h).
  double tolerance = 0;
  double relative_tolerance = 0;
  // Without back-references and lookaround. It matches the answer's characters as UTF-8, in time linear in the answer;
  // bytes that are not UTF-8 match nothing. A template: values are inserted as they are, without quoting.
  std::string pattern;
  std::string field;  // "result.items.0"
  std::vector<std::string> command;
  // "exit_code" = 0 is reward 1, 1 is reward 0, any other code is an error. "json" = the command exits with 0, and its
  // last line of output has the form of agent_reported.
  std::string reward_from = "exit_code";
  double timeout_s = 60;
  bool timeout_is_zero = false;  // of command; harbor has its own
  ChoiceOptions choice;
  FBetaOptions f_beta;
  MathOptions math;
  CodeOptions code;
  HarborOptions harbor;
  PythonOptions python;
  int64_t max_answer_bytes = 65536;

  // INVALID_ARGUMENT names the option, its value and its allowed values.
  absl::Status Validate() const;

  // True = Verify runs a program that the model wrote, on any isolation level. (harbor needs the isolation level
  // `namespaces`.)
  bool runs_model_code() const { return kind == "code"; }
};

void Bind(base::Schema& schema, VerifierOptions& options);
// The bounds and choices alone; errors name keys as verifier.KEY.
absl::Status CheckVerifierBounds(const VerifierOptions& options);

}  // namespace ingot::reward
