// Whether a program starts in a sandbox, before a run depends on it. An interpreter runs a program that prints 1.
// Blocks; thread safe.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "sandbox/process.h"
#include "sandbox/substrate.h"

namespace ingot::sandbox {

// The option and program with which an interpreter of this name prints 1: {"-c", "print(1)"}; empty = no interpreter
// that is known.
std::vector<std::string> PrintsOne(const std::string& program);

// True: a shell's or env's codes for a program that cannot be executed or is missing.
bool CouldNotStart(const Outcome& outcome);

// The fault of a program that did not start in its sandbox: `what` says how it ended.
absl::Status StartFault(const std::string& program, const std::string& what);

// Runs argv[0] in a new sandbox: an interpreter with PrintsOne, any other program not at all. `like`: the command,
// whose environment counts. FAILED_PRECONDITION names the program and sandbox.visible. Otherwise the errors of
// Substrate::Prepare.
absl::Status TryInterpreter(Substrate& substrate, const Command& like);

}  // namespace ingot::sandbox
