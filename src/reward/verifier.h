// A Verifier compares an agent's answer with its task and gives a verdict: a reward, signals, and facts. A recipe
// creates its verifier at startup. Verify is const and thread safe. Verifiers that run programs (command, harbor, code,
// math, python) block up to their time limits.
//
// There are two kinds of faults:
//   the agent's     The answer is missing, malformed, or too long. The verdict has reward 0, the reason in `detail`,
//                   and the signal `answer_malformed`.
//   the verifier's  The task lacks the expected field or has a value of the wrong type, a pattern does not compile, or
//                   a command cannot run. Verify returns an error, never a 0 that would be trained on.
//
// A command that runs in the agent's directory may fail because of the agent's files (unknown exit code, signal,
// timeout). This is a sandbox fault (DATA_LOSS, sandbox/sandbox_fault.h) and counts as the agent's failure. But if the
// command fails in all of the first episodes without judging any, the fault is the verifier's.
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
  std::optional<std::string> answer;  // nullopt = no answer; see `no_answer_reason`
  std::string no_answer_reason;
  // The episode's sandbox, where commands run; null = the verifier runs no command.
  sandbox::Sandbox* sandbox = nullptr;
  sandbox::Substrate* substrate = nullptr;  // prepares the verifier's own sandboxes; null = the verifier needs none
  std::string workdir;
  std::string home;                        // the agent's HOME
  std::string own_home;                    // a command's HOME: an empty folder that no agent has used
  std::string own_tmp;                     // a command's TMPDIR: an empty folder that no agent has used
  std::map<std::string, std::string> env;  // environment from the sandbox's image, for harbor
  std::string episode_id;
  std::string cwd;  // the directory where ingot was started
  // Returns the assistant's messages so far, in call order, as a JSON array in OpenAI format. Null = not available.
  std::function<absl::StatusOr<std::string>()> messages;
  const sandbox::Cancellation* cancel = nullptr;  // ends a running command; null = nothing ends it early
};

struct Verdict {
  double reward = 0;                         // limited to tree::kMaxReward
  std::map<std::string, double> signals;     // limited to tree::kMaxSignal
  std::map<std::string, std::string> facts;  // JSON by name (Episode.facts)
  std::string detail;                        // one human-readable line
};

class Verifier {
 public:
  virtual ~Verifier() = default;

  // Returns the errors of VerifierOptions::Validate.
  static absl::StatusOr<std::unique_ptr<const Verifier>> Make(const VerifierOptions& options);

  virtual absl::StatusOr<Verdict> Verify(const VerifierInput& input) const = 0;
  // Checks the task for faults that Verify would find regardless of the answer, without running anything. Returns the
  // command that Verify would run, with an empty argv if there is none.
  virtual absl::StatusOr<sandbox::Command> Preflight(const VerifierInput& input) const = 0;
  // Starts the verifier's program once in a sandbox from `substrate`. Without this check, a program that cannot run
  // there would look like wrong answers. Blocks up to a minute. Returns FAILED_PRECONDITION, naming the program and the
  // setting to change, if it fails. `cwd` is the directory where ingot was started. Does nothing for verifiers without
  // their own program.
  virtual absl::Status TryProgram(sandbox::Substrate& /*substrate*/, const std::string& /*cwd*/) const {
    return absl::OkStatus();
  }
  // Returns false for agent_posted, because there is no verdict to post.
  virtual bool decides() const { return true; }
};

// Returns the configuration key of the verifier's program, such as "verifier.command", for errors.
std::string ProgramKey(const VerifierOptions& options);

// Returns advice to append to an error if that program is missing; empty = none.
std::string ProgramAdvice(const VerifierOptions& options);

// Returns the variables allowed in `expected`, `pattern`, and `command`, for Template::Parse.
const std::vector<std::string>& VerifierVariables();

}  // namespace ingot::reward
