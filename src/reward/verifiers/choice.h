// Verifies answers to multiple-choice questions. An answer is correct if it gives only the expected choice. An answer
// that gives several choices is wrong and sets the signal `several_choices`, so guessing all of them does not pay.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "base/status.h"
#include "reward/verifier.h"
#include "sandbox/template.h"

namespace ingot::reward {

// Returns the choices that `text` gives. A capital letter in `choices` counts if it is not next to a letter, digit, or
// apostrophe. An "A" before a lowercase word is an article and does not count. If the text is a single letter, it may
// be lowercase. Only the last \boxed{..} counts. Without a box, only the text after the last "answer is" or "answer:"
// counts.
std::set<char> NamedChoices(std::string_view text, std::string_view choices);

absl::StatusOr<std::unique_ptr<const Verifier>> MakeChoice(const VerifierOptions& options, sandbox::Template expected);

}  // namespace ingot::reward
