// Compares mathematical expressions in three steps, cheapest first:
//
//   1. text       The strings are equal except for insignificant details: $ signs, spaces, \left and \right, \dfrac.
//   2. rationals  Both are integers, decimals, or fractions, which are compared exactly.
//   3. worker     math-verify (a Python package based on SymPy) decides, in a process in a sandbox (math_workers.h).
//
// If an answer has \boxed{..}, the last box counts, including boxes joined to it by "and", "or", or a comma. Currency
// signs, Markdown emphasis, and separators between groups of digits are ignored. A comparison that exceeds its time or
// memory limit counts as "not equal" and sets the signal `verifier_timeout`, so an answer like 9^{9^{9^9}} gets no
// reward. If math-verify cannot parse the expected value, the task is faulty and Verify returns an error.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "reward/verifier.h"
#include "sandbox/template.h"

namespace ingot::reward {

// Returns the content of the last \boxed{..} in `text`, preceded by the content of boxes joined to it, as in "1, 2". If
// there are no boxes, returns `text` with surrounding whitespace removed.
std::string MathAnswerOf(std::string_view text);

// Removes typical markup around mathematical expressions: \$ and a single $ (prices), **bold**, `code`, no-break
// spaces, and spaces between groups of digits. Replaces U+2212 with "-".
std::string PlainMath(std::string_view text);

// Removes details that do not change the meaning. Strings with different meanings stay different.
std::string NormalisedMath(std::string_view text);

// Returns whether two rational numbers are equal, or nullopt if either string is not a rational number. Accepts "12",
// "-0.5", "3/4", and "\frac{3}{4}", with at most 1,000 digits each. REQUIRES: both strings are normalized.
std::optional<bool> EqualRationals(std::string_view a, std::string_view b);

absl::StatusOr<std::unique_ptr<const Verifier>> MakeMath(const VerifierOptions& options, sandbox::Template expected);

}  // namespace ingot::reward
