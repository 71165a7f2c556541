// A Verifier compares an agent's answer with its task and gives a verdict: a reward, signals and facts. A recipe makes
// its verifier at start. Verify is const and thread safe. Kinds that run programs (command, harbor, code, math, python) block
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
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "reward/verifier_options.h"
#include "sandbox/process.h"
#include "sandbox/substrate.h"

namespace ingot::reward {

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
  std::string cwd;  // the folder in which ingot was started
  // The assistant's messages so far, a JSON array in OpenAI's form, in the order of the calls; null = unknown.
  std::function<absl::StatusOr<std::string>()> messages;
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
  // Starts the verifier's program once in a sandbox of `substrate`, so that a program that cannot run there does not look
  // like wrong answers. Blocks up to a minute. FAILED_PRECONDITION names the program and what to set. `cwd`: the folder
  // in which ingot was started. Kinds without a program of their own do nothing.
  virtual absl::Status TryProgram(sandbox::Substrate& /*substrate*/, const std::string& /*cwd*/) const {
    return absl::OkStatus();
  }
  // False for agent_posted: there is no verdict to post.
  virtual bool decides() const { return true; }
};

// The key that names the program of a verifier that runs one, for errors: "verifier.command".
std::string ProgramKey(const VerifierOptions& options);

// What to do if that program is missing, for the end of an error; empty = nothing is known.
std::string ProgramAdvice(const VerifierOptions& options);

// The variables of `expected`, `pattern` and `command`, for Template::Parse.
const std::vector<std::string>& VerifierVariables();

}  // namespace ingot::reward
