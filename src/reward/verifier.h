// A Verifier compares the answer of an agent with its task and gives a verdict: a reward and signals. A recipe has one,
// made at start. Verify is const and thread safe. It blocks for kind "command" alone, at most for its time limit.
//
// Two kinds of fault are kept apart:
//   the agent's     The answer is missing, malformed or too long. The verdict is reward 0, with the reason in `detail`
//                   and the signal `answer_malformed`.
//   the verifier's  The task lacks the expected field, or its value has the wrong kind; a pattern does not compile; a
//                   command cannot run or breaks its contract. Verify returns an error, never a 0 to train on.
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

// A template is text with ${task}, ${task.FIELD}, ${workdir}, ${home} or ${episode_id} in it (sandbox/template.h).
struct VerifierOptions {
  // exact           The answer is `expected`, apart from white space around it.
  // numeric         The answer is a number within the tolerances of `expected`.
  // regex           The whole answer matches `pattern`.
  // json_field      The answer is JSON whose `field` equals `expected`: lists in order, objects by their fields.
  // command         `command` decides. It runs after the agent, in the agent's room and work folder, the answer on stdin.
  //                 Its HOME and TMPDIR are its own, so files that the agent left in ${home} do not decide by accident.
  // agent_reported  The answer is the reward: a number, or {"reward": number, "signals": {name: number}}.
  //                 tree/reward_bounds.h limits the numbers, tree/signal_bounds.h the count and names of signals.
  // agent_posted    The agent posts its reward itself, and there is nothing to verify. An agent that posts none has no
  //                 answer.
  std::string kind = "exact";
  // exact, numeric, json_field: template of the right answer.
  std::string expected = "${task.answer}";
  // exact: true = letters A-Z and a-z are equal.
  bool ignore_case = false;
  // numeric, and numbers at any depth of json_field:
  //   |answer - expected| <= tolerance + relative_tolerance * |expected|
  // Numbers that doubles do not hold, such as long integers, are compared exactly (reward/number.h). Finite, >= 0.
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
  // command: seconds, > 0.
  double timeout_s = 60;
  // command: true = running past `timeout_s` is reward 0, since the agent's work may hang; false = an error.
  bool timeout_is_zero = false;
  // A longer answer is malformed. > 0, at most 16 MiB.
  int64_t max_answer_bytes = 65536;

  // INVALID_ARGUMENT names the option, its value and its allowed values.
  absl::Status Validate() const;
};

struct VerifierInput {
  std::string_view task = "{}";       // the task's payload, a JSON object; not owned
  std::optional<std::string> answer;  // nullopt = there is none, for `no_answer_reason`
  std::string no_answer_reason;
  sandbox::Room* room = nullptr;  // where a command runs; null = the verifier runs none
  std::string workdir;
  std::string home;      // the agent's
  std::string own_home;  // HOME of a command: an empty folder that no agent has used
  std::string own_tmp;   // TMPDIR of a command: another one
  std::string episode_id;
  std::string cwd;                                // the folder in which ingot was started
  const sandbox::Cancellation* cancel = nullptr;  // ends a running command; null = nothing ends it early
};

struct Verdict {
  double reward = 0;                      // within tree::kMaxReward
  std::map<std::string, double> signals;  // within tree::kMaxSignal
  std::string detail;                     // one line, for people
};

class Verifier {
 public:
  virtual ~Verifier() = default;

  // Same errors as VerifierOptions::Validate.
  static absl::StatusOr<std::unique_ptr<const Verifier>> Make(const VerifierOptions& options);

  virtual absl::StatusOr<Verdict> Verify(const VerifierInput& input) const = 0;
  // The faults that Verify would find in the task alone, whatever the answer. Runs nothing. Returns the command that
  // Verify would run; its argv is empty for kinds that run none.
  virtual absl::StatusOr<sandbox::Command> Rehearse(const VerifierInput& input) const = 0;
  // False for agent_posted: there is no verdict to post.
  virtual bool decides() const { return true; }
};

// The variables of `expected`, `pattern` and `command`, for Template::Parse.
const std::vector<std::string>& VerifierVariables();

}  // namespace ingot::reward
