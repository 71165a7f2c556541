// Runs a Harbor task's verifier, which is a folder with test.sh and the files it needs. test.sh runs in the agent's
// working directory, in a sandbox that no agent has used (agents/verifier_sandbox.h). It writes the reward to
// reward.json, or else to reward.txt:
//
//   /logs/verifier/reward.txt    a number in the format of Python's float()
//   /logs/verifier/reward.json   a number, or an object of numbers: "reward" is the reward, and the others are signals.
//                                If an object has just one number and no "reward", that number is the reward.
//
// test.sh is run by the interpreter named in its first line. It may change the files in /tests, because they are
// copies.
//
// The exit code and the answer are ignored. The task's timeout replaces `timeout_s`. If the agent's changes make
// test.sh fail, the agent has failed. A verifier that could not run is handled differently:
//
//   reward 0   test.sh started but ended without writing a reward (no reward file, or an empty one): it exited, was
//              killed by a signal, or reached its output limit or its sandbox's disk limit. Sets the signal no_reward.
//              With `no_reward_is_zero: false`, this is an error instead.
//              test.sh exceeded its timeout. Sets the signal tests_timed_out. With `timeout_is_zero: false`, this is an
//              error instead.
//              Otherwise, both signals are 0.
//   an error   test.sh is missing or did not start, the machine's disk was full, or the sandbox died. The error is a
//              sandbox fault (sandbox/sandbox_fault.h), which counts as the agent's failure, if the agent's files
//              prevent test.sh from starting, or if the reward file has invalid content, because one of the agent's
//              programs may have written it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "reward/verifier.h"

namespace ingot::reward {

// Returns the argv that runs the script at `at` in a sandbox. The interpreter is read from the script's first line.
// Without one, it is bash, or sh if the image has no bash. `source` is the script's path outside the sandbox.
std::vector<std::string> HarborScript(const std::string& source, const std::string& at);

// Returns the bind mounts for VerifierInput::sandbox: /tests and /logs.
std::vector<sandbox::BindMount> HarborBinds();

absl::StatusOr<std::unique_ptr<const Verifier>> MakeHarbor(const VerifierOptions& options);

}  // namespace ingot::reward
