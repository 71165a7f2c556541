// Unit tests of a program that the model wrote. The answer is the program; if it has fenced blocks, the last block that
// is not blank is (verifiers/fenced_blocks.h). Each test runs in the verifier's own sandbox, which holds only the program. A test is one of
//
//   {"input": TEXT, "output": TEXT}   The program reads `input` on stdin, exits with 0 and prints `output`, apart from white
//                                     space at the ends of lines and of the text. `output` never enters the sandbox.
//   {"code": TEXT}                    Only Python: `code` runs after the program in one interpreter, without raising.
//                                     A program that inspects its interpreter can forge this test.
//
// Signals: `tests_passed` (their share), `tests_timed_out` (the share that ran past the time limit).
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"
#include "reward/verifier.h"

namespace ingot::reward {

// The last fenced block of `answer` that is not blank; the answer itself if it has none.
std::string ProgramOf(std::string_view answer);

absl::StatusOr<std::unique_ptr<const Verifier>> MakeCode(const VerifierOptions& options);

}  // namespace ingot::reward
