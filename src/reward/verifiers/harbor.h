// The verifier of a Harbor task: a folder with test.sh and the files it needs. It runs in a sandbox that no agent has
// used (agents/verifier_sandbox.h), in the agent's work folder. The reward is what test.sh leaves in reward.json, or
// else in reward.txt:
//
//   /logs/verifier/reward.txt    a number, as Python's float() reads it
//   /logs/verifier/reward.json   a number, or an object of numbers: "reward" is the reward, the others are signals. In
//                                an object with one number and no "reward", that number is the reward.
//
// test.sh runs by its first line, and may change the files of /tests, which are copies.
//
// The exit code does not matter, and the answer is not read. The task's time limit replaces `timeout_s`. An agent whose
// work makes test.sh fail has failed, which is not the same as a verifier that did not run:
//
//   reward 0   test.sh started, and ended without a reward (no reward file, or an empty one): by an exit code, a signal, too
//              much output, or its sandbox's disk limit. Signal no_reward; `no_reward_is_zero: false` makes it an
//              error.
//              It ran past its time limit. Signal tests_timed_out; `timeout_is_zero: false` makes it an error.
//              Both signals are 0 otherwise.
//   an error   test.sh is missing or did not start, the machine's disk was full, or the sandbox died. It is a sandbox fault
//              (sandbox/sandbox_fault.h), which fails the agent, if the agent's files keep test.sh from starting, or if
//              the reward file holds something that is not a reward: a program of the agent may have written it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "reward/verifier.h"

namespace ingot::reward {

// The argv that runs a script at `at` in a sandbox: the interpreter that its first line names, or without such a line
// bash, or sh where an image has no bash. `source`: the script outside.
std::vector<std::string> HarborScript(const std::string& source, const std::string& at);

// The binds of VerifierInput::sandbox: /tests and /logs.
std::vector<sandbox::BindMount> HarborBinds();

absl::StatusOr<std::unique_ptr<const Verifier>> MakeHarbor(const VerifierOptions& options);

}  // namespace ingot::reward
