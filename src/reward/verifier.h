// A Verifier compares an agent's answer with its task and gives a verdict: a reward, signals and facts. A recipe makes
// its verifier at start. Verify is const and thread safe. Kinds that run programs (command, harbor, code, math) block
// up to their time limits.
//
// There are two kinds of fault:
//   the agent's     The answer is missing, malformed or too long. The verdict is reward 0, with the reason in `detail`
//                   and the signal `answer_malformed`.
//   the verifier's  The task lacks the expected field, or its value has the wrong kind; a pattern does not compile; a
//                   command cannot run. Verify returns an error, never a 0 to train on.
//
// A command that runs among the agent's files may break its contract (an unknown exit code, a signal, no time left)
// because of those files: the error is a sandbox fault (DATA_LOSS, sandbox/sandbox_fault.h), and the agent has failed.
// If the command broke in each of its first episodes and judged none of them, the fault is the verifier's.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "sandbox/process.h"
#include "sandbox/substrate.h"

namespace ingot::reward {

// Options of single kinds.
struct ChoiceOptions {
  std::string choices = "ABCDE";  // the letters that a question may have, A to Z; 2 to 26 of them
};

struct FBetaOptions {
  double beta = 1;  // > 1 counts recall more; in (0, 100]
};

struct MathOptions {
  // The Python program with the package math-verify; a template with ${cwd} as its only variable.
  std::string python = "${cwd}/.venv/bin/python";
  double timeout_s = 2;  // CPU seconds of one comparison, in (0, 600]; the wall time limit is 5 times that
  int64_t memory_bytes = 512LL << 20;  // of one comparison; at least 128 MiB
  int32_t float_rounding = 12;         // decimal digits to which numbers are rounded, in [1, 15]
  int32_t workers = 1;                 // Python processes at a time, in [1, 64]
};

struct CodeOptions {
  // argv that runs the program; a template with ${file}, the program's path, and ${cwd}.
  std::vector<std::string> command = {"python3", "-I", "${file}"};
  std::string file = "solution.py";     // the program's name in its folder
  std::string tests = "${task.tests}";  // template of the tests, JSON (verifiers/code.h)
  std::string score = "all";         // "all" = 1 if every test passes, else 0; "fraction" = the share of passed tests
  int64_t memory_bytes = 1LL << 30;  // address space of each process; 0 = no limit
  int32_t max_tests = 256;           // a task with more tests is an error; > 0
};

struct HarborOptions {
  std::string tests = "${task.tests_dir}";  // template of the folder that holds test.sh; relative to ${cwd}
  // true = a test.sh that started and ended without a reward is reward 0, since the agent's work may end it; false = an
  // error.
  bool no_reward_is_zero = true;
  bool timeout_is_zero = true;  // the same for a test.sh that runs past its time limit
};

// A template is text with ${task}, ${task.FIELD}, ${workdir}, ${home} or ${episode_id} in it (sandbox/template.h).
struct VerifierOptions {
  // exact           The answer is `expected`, apart from white space around it.
  // numeric         The answer is a number within the tolerances of `expected`.
  // regex           The whole answer matches `pattern`.
  // json_field      The answer is JSON whose `field` equals `expected`: lists in order, objects by their fields.
  // choice          The answer names one of the choices of a multiple-choice question: `expected`. An answer that names
  //                 several is wrong (verifiers/choice.h).
  // f_beta          The answer is a list of ids, and the reward is its F-beta against `expected` (verifiers/f_beta.h).
  // math            The answer equals `expected` as mathematics (verifiers/math.h).
  // code            The answer is a program, and the reward counts the task's tests that it passes (verifiers/code.h).
  // harbor          tests/test.sh of a Harbor task decides (verifiers/harbor.h).
  // command         `command` decides. It runs after the agent, in the agent's sandbox and work folder, the answer on stdin.
  //                 It has its own HOME and TMPDIR, so files that the agent left in ${home} do not decide by accident.
  // agent_reported  The answer is the reward: a number, or {"reward": number, "signals": {name: number},
  //                 "facts": {name: JSON}}.
  //                 tree/reward_bounds.h limits the numbers, tree/signal_bounds.h the count and names of signals.
  // agent_posted    The agent posts its own reward, and there is nothing to verify. An agent that does not post a
  // reward
  //                 has no answer.
  std::string kind = "exact";
  // exact, numeric, json_field, choice, f_beta, math: template of the right answer.
  std::string expected = "${task.answer}";
  // exact: true = letters A-Z and a-z are equal.
  bool ignore_case = false;
  // numeric, and numbers at any depth of json_field:
  //   |answer - expected| <= tolerance + relative_tolerance * |expected|
  // Numbers that do not fit doubles, such as long integers, are compared exactly (reward/number.h). Finite, >= 0.
  double tolerance = 0;
  double relative_tolerance = 0;
  // regex: a pattern in RE2's syntax, without back-references and lookaround. It matches the answer's characters
  // as UTF-8, in time linear in the answer; bytes that are not UTF-8 match nothing. A template: values are inserted as
  // they are, without quoting.
  std::string pattern;
  // json_field: dotted path, "result.items.0". Empty = the whole answer.
  std::string field;
  // command: argv, each a template.
  std::vector<std::string> command;
  // command: "exit_code" = 0 is reward 1, 1 is reward 0, any other code is an error. "json" = the command exits with 0,
  // and its last line of output has the form of agent_reported.
  std::string reward_from = "exit_code";
  // command, harbor: seconds, > 0. code: of each test.
  double timeout_s = 60;
  // command (harbor has its own): true = running past `timeout_s` is reward 0, since the agent's work may hang; false =
  // an error.
  bool timeout_is_zero = false;
  ChoiceOptions choice;
  FBetaOptions f_beta;
  MathOptions math;
  CodeOptions code;
  HarborOptions harbor;
  // A longer answer is malformed. > 0, at most 16 MiB.
  int64_t max_answer_bytes = 65536;

  // INVALID_ARGUMENT names the option, its value and its allowed values.
  absl::Status Validate() const;

  // True = Verify runs a program that the model wrote, on any isolation level. (harbor needs the isolation level `namespaces`.)
  bool runs_model_code() const { return kind == "code"; }
};

struct VerifierInput {
  std::string_view task = "{}";       // the task's payload, a JSON object; not owned
  std::optional<std::string> answer;  // nullopt = no answer, because of `no_answer_reason`
  std::string no_answer_reason;
  sandbox::Sandbox* sandbox = nullptr;      // the episode's, where a command runs; null = the verifier runs no command
  sandbox::Substrate* substrate = nullptr;  // prepares the verifier's own sandboxes; null = the verifier needs none
  std::string workdir;
  std::string home;                        // the agent's
  std::string own_home;                    // HOME of a command: an empty folder that no agent has used
  std::string own_tmp;                     // TMPDIR of a command: another such folder
  std::map<std::string, std::string> env;  // of the sandbox's image, for harbor
  std::string episode_id;
  std::string cwd;                                // the folder in which ingot was started
  const sandbox::Cancellation* cancel = nullptr;  // ends a running command; null = nothing ends it early
};

struct Verdict {
  double reward = 0;                         // within tree::kMaxReward
  std::map<std::string, double> signals;     // within tree::kMaxSignal
  std::map<std::string, std::string> facts;  // JSON by name (Episode.facts)
  std::string detail;                        // one line, for people
};

class Verifier {
 public:
  virtual ~Verifier() = default;

  // Same errors as VerifierOptions::Validate.
  static absl::StatusOr<std::unique_ptr<const Verifier>> Make(const VerifierOptions& options);

  virtual absl::StatusOr<Verdict> Verify(const VerifierInput& input) const = 0;
  // The faults that Verify would find in the task itself, whatever the answer. Runs nothing. Returns the command that
  // Verify would run; its argv is empty for kinds that run no command.
  virtual absl::StatusOr<sandbox::Command> Preflight(const VerifierInput& input) const = 0;
  // False for agent_posted: there is no verdict to post.
  virtual bool decides() const { return true; }
};

// The key that names the program of a verifier that runs one, for errors: "verifier.command".
std::string ProgramKey(const VerifierOptions& options);

// The kinds that Make knows.
const std::vector<std::string>& VerifierKinds();

// The variables of `expected`, `pattern` and `command`, for Template::Parse.
const std::vector<std::string>& VerifierVariables();

}  // namespace ingot::reward
