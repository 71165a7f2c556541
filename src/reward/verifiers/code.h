// Runs unit tests on a program written by the model. The answer is the program. If it has fenced blocks, the program is
// the last nonblank block (verifiers/fenced_blocks.h). Each test runs in the verifier's own sandbox, which contains
// only the program. A test is one of
//
//   {"input": TEXT, "output": TEXT}   The program reads `input` from stdin, prints `output`, and exits with 0.
//                                     Whitespace at the ends of lines and of the output is ignored. The sandbox does
//                                     not contain `output`.
//   {"code": TEXT}                    Python only. `code` runs after the program in the same interpreter and must not
//                                     raise. A program that inspects its interpreter can fake this test.
//
// Signals: `tests_passed` (fraction of tests that passed), `tests_timed_out` (fraction that exceeded the timeout).
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"
#include "reward/verifier.h"

namespace ingot::reward {

// Returns the last nonblank fenced block in `answer`, or the entire answer if there is none.
std::string ProgramOf(std::string_view answer);

absl::StatusOr<std::unique_ptr<const Verifier>> MakeCode(const VerifierOptions& options);

}  // namespace ingot::reward
