// Scores what an agent answered. One Verifier per recipe, made once; Verify is const and thread safe, and blocks only
// for kind "command" (at most its time limit).
//
// Two kinds of trouble are kept apart. An answer that is missing, malformed or too long is the agent's: reward 0, with
// the reason in `detail` and the signal `answer_malformed`. A task without the expected field, an expected value of the
// wrong kind, a pattern that does not compile, a command that cannot run or does not say what it should: that is the
// verifier's, and an error, never a 0 that would be trained on.
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

namespace ingot::reward {

// "Template" below: text with ${task}, ${task.FIELD}, ${workdir}, ${home}, ${episode_id} (sandbox/template.h).
struct VerifierOptions {
  // exact           the answer is `expected`, apart from white space around it
  // numeric         the answer is a number within the tolerances of `expected`
  // regex           the whole answer matches `pattern`
  // json_field      the answer is JSON whose `field` equals `expected`: lists in order, objects by their fields
  // command         `command` decides, with the answer on its stdin, run in the agent's work folder after the agent.
  //                 Its HOME and TMPDIR are its own: what the agent left in its ${home} decides nothing unless asked
  // agent_reported  the answer is the reward: a number, or {"reward": number, "signals": {name: number}}, with at most
  //                 as many signals and as long names as tree/signal_bounds.h says
  // agent_posted    nothing to verify: the agent itself posts its reward. None posted: as a missing answer
  std::string kind = "exact";
  // exact, numeric, json_field: template of the right answer.
  std::string expected = "${task.answer}";
  // exact: letters A-Z and a-z are the same.
  bool ignore_case = false;
  // numeric, and numbers anywhere in json_field: |answer - expected| <= tolerance + relative_tolerance * |expected|, as
  // doubles. With both 0, two integers are compared digit by digit, however many they have.
  double tolerance = 0;
  double relative_tolerance = 0;
  // regex: ECMAScript without back-references; a template (values are inserted as they are, not quoted). Matched in
  // time polynomial in the answer's length, whatever the pattern.
  std::string pattern;
  // json_field: dotted path, "result.items.0"; empty: the whole answer.
  std::string field;
  // command: argv, each a template.
  std::vector<std::string> command;
  // command: "exit_code": 0 is reward 1, 1 is reward 0, anything else an error. "json": it exits with 0, and its last
  // line of output is like that of agent_reported.
  std::string reward_from = "exit_code";
  // command: seconds, > 0.
  double timeout_s = 60;
  // command: true: running past `timeout_s` is reward 0 (the agent's work may be what hangs); false: an error.
  bool timeout_is_zero = false;
  // Longer answers are malformed. > 0, at most 16 MiB.
  int64_t max_answer_bytes = 65536;

  absl::Status Validate() const;
};

struct VerifierInput {
  std::string_view task = "{}";       // the task's payload, a JSON object; not owned
  std::optional<std::string> answer;  // nothing: there is none, for the reason in `no_answer_reason`
  std::string no_answer_reason;
  std::string workdir;
  std::string home;      // the agent's
  std::string own_home;  // HOME and TMPDIR of a command: empty folders that the agent has not been in
  std::string own_tmp;
  std::string episode_id;
  std::string cwd;                                // the folder ingot was started in
  const sandbox::Cancellation* cancel = nullptr;  // ends a running command
};

struct Verdict {
  double reward = 0;                      // finite
  std::map<std::string, double> signals;  // finite
  std::string detail;                     // one line, for people
};

class Verifier {
 public:
  virtual ~Verifier() = default;

  // Same errors as VerifierOptions::Validate.
  static absl::StatusOr<std::unique_ptr<const Verifier>> Make(const VerifierOptions& options);

  virtual absl::StatusOr<Verdict> Verify(const VerifierInput& input) const = 0;
  // False for agent_posted: then there is no verdict to post.
  virtual bool decides() const { return true; }
};

// The names that `expected`, `pattern` and `command` may use, for Template::Parse.
const std::vector<std::string>& VerifierVariables();

}  // namespace ingot::reward
