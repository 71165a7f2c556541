// Checks whether a program can start in a sandbox before a run depends on it. For interpreters, it runs a program that
// prints 1. Blocks. Thread safe.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "sandbox/process.h"
#include "sandbox/substrate.h"

namespace ingot::sandbox {

// Returns the arguments that make this interpreter print 1, such as {"-c", "print(1)"}. Returns an empty list if it is
// not a known interpreter.
std::vector<std::string> PrintsOne(const std::string& program);

// Returns whether the exit code is one that a shell or env uses for a program that is missing or cannot be
// executed.
bool CouldNotStart(const Outcome& outcome);

// Returns the error for a program that did not start in its sandbox. `what` describes how it ended.
absl::Status StartFault(const std::string& program, const std::string& what);

// Runs argv[0] of `like` in a new sandbox, with the environment of `like`, if it is a known interpreter (PrintsOne).
// Skips other programs. Returns FAILED_PRECONDITION, naming the program and sandbox.visible, if it cannot start. Also
// returns the errors of Substrate::Prepare.
absl::Status TryInterpreter(Substrate& substrate, const Command& like);

}  // namespace ingot::sandbox
