// Multiple choice: the answer is right if it names only the expected choice. Naming several choices is wrong, with the
// signal `several_choices`: a guess that covers the question earns nothing.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "base/status.h"
#include "reward/verifier.h"
#include "sandbox/template.h"

namespace ingot::reward {

// The choices that `text` names. A capital letter of `choices` counts if no letter, digit or apostrophe is next to it,
// but "A" before a lower-case word is the article. A text of one letter may be lower case. Only the last \boxed{..} of
// the text counts; without a box, the text after its last "answer is" or "answer:" counts.
std::set<char> NamedChoices(std::string_view text, std::string_view choices);

absl::StatusOr<std::unique_ptr<const Verifier>> MakeChoice(const VerifierOptions& options, sandbox::Template expected);

}  // namespace ingot::reward
