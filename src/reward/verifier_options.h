// Configures a verifier. Bind declares each key with its meaning, bounds, and choices.
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

// Options for individual kinds of verifiers.
struct ChoiceOptions {
  std::string choices = "ABCDE";  // 2 to 26 letters, A to Z
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

// The agent's changes may make test.sh end early or hang, so both give reward 0 by default.
struct HarborOptions {
  std::string tests = "${task.tests_dir}";
  bool no_reward_is_zero = true;
  bool timeout_is_zero = true;
};

// Templates are strings with ${task}, ${task.FIELD}, ${workdir}, ${home}, or ${episode_id} (sandbox/template.h).
struct VerifierOptions {
  // exact           The answer equals `expected`, ignoring surrounding whitespace.
  // numeric         The answer is a number within the tolerances of `expected`. Forms like "1,234" are accepted.
  // regex           The entire answer matches `pattern`.
  // json_field      The answer is JSON whose `field` equals `expected`. Lists are compared in order, objects by field.
  // choice          The answer gives the choice `expected` in a multiple-choice question. An answer that gives several
  //                 choices is wrong (verifiers/choice.h).
  // f_beta          The answer is a list of ids, and the reward is its F-beta against `expected` (verifiers/f_beta.h).
  // math            The answer is mathematically equal to `expected` (verifiers/math.h).
  // code            The answer is a program, and the reward counts the task's tests that it passes (verifiers/code.h).
  // python          The user's Python function decides (verifiers/python.h).
  // harbor          tests/test.sh of a Harbor task decides (verifiers/harbor.h).
  // command         `command` decides. It runs after the agent, in the agent's sandbox and working directory, with the
  //                 answer on stdin. It has its own HOME and TMPDIR, so files that the agent left in ${home} cannot
  //                 affect it.
  // agent_reported  The answer is the reward: a number, or {"reward": number, "signals": {name: number},
  //                 "facts": {name: JSON}}.
  //                 tree/reward_bounds.h limits the numbers, and tree/signal_bounds.h the number and names of signals.
  // agent_posted    The agent posts its own reward, and there is nothing to verify. If it does not post a reward, it
  //                 has no answer.
  std::string kind = "exact";
  std::string expected = "${task.answer}";
  bool ignore_case = false;
  // For numeric, and for numbers at any depth in json_field:
  //   |answer - expected| <= tolerance + relative_tolerance * |expected|
  // Numbers that do not fit in doubles, such as long integers, are compared exactly (reward/number.h).
  double tolerance = 0;
  double relative_tolerance = 0;
  // Back-references and lookaround are not supported. Matches the answer's characters as UTF-8, in linear time. Bytes
  // that are not UTF-8 never match. This is a template, and values are inserted without quoting.
  std::string pattern;
  std::string field;  // such as "result.items.0"
  std::vector<std::string> command;
  // "exit_code" = 0 gives reward 1, 1 gives reward 0, and any other code is an error. "json" = the command exits with
  // 0, and the last line of its output has the same format as agent_reported.
  std::string reward_from = "exit_code";
  double timeout_s = 60;
  bool timeout_is_zero = false;  // for command; harbor has its own option
  ChoiceOptions choice;
  FBetaOptions f_beta;
  MathOptions math;
  CodeOptions code;
  HarborOptions harbor;
  PythonOptions python;
  int64_t max_answer_bytes = 65536;

  // Returns INVALID_ARGUMENT with the option, its value, and the allowed values.
  absl::Status Validate() const;

  // Returns whether Verify runs a program written by the model at any isolation level. (harbor needs at least
  // `namespaces`.)
  bool runs_model_code() const { return kind == "code"; }
};

void Bind(base::Schema& schema, VerifierOptions& options);
// Checks only bounds and choices. Errors name keys as verifier.KEY.
absl::Status CheckVerifierBounds(const VerifierOptions& options);

}  // namespace ingot::reward
