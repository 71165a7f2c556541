// Equality of mathematics, in three steps, the cheap steps first:
//
//   1. text       Both texts are equal except for details without meaning: $ signs, spaces, \left and \right, \dfrac.
//   2. rationals  Both are integers, decimals or fractions: equal or not, exactly.
//   3. worker     math-verify (a Python package over SymPy) decides, in a process of the sandbox (math_workers.h).
//
// In an answer with \boxed{..}, the last box counts, with the boxes that "and", "or" or a comma joins to it. Currency
// signs, Markdown's emphasis and marks between groups of digits are ignored. A comparison that exceeds its time or memory counts as "not
// equal", with the signal `verifier_timeout`; so an answer like 9^{9^{9^9}} earns nothing. An expected value that
// math-verify cannot read is an error of the task.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "reward/verifier.h"
#include "sandbox/template.h"

namespace ingot::reward {

// The inside of the last \boxed{..} of `text`, after those of the boxes that are joined to it, as "1, 2"; or `text` without
// white space around it.
std::string MathAnswerOf(std::string_view text);

// `text` without what people write around mathematics: \$ and a single $ (a price), **bold** and `code`, no-break
// spaces, spaces between groups of digits; U+2212 is "-".
std::string PlainMath(std::string_view text);

// `text` without details that do not change its meaning. Texts that differ in meaning stay different.
std::string NormalisedMath(std::string_view text);

// Whether two rational numbers are equal; nullopt = one of the texts is not a rational number: "12", "-0.5", "3/4",
// "\frac{3}{4}", of at most 1,000 digits each. REQUIRES: both are normalised.
std::optional<bool> EqualRationals(std::string_view a, std::string_view b);

absl::StatusOr<std::unique_ptr<const Verifier>> MakeMath(const VerifierOptions& options, sandbox::Template expected);

}  // namespace ingot::reward
