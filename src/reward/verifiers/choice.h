// Multiple choice: the answer is right if it names the expected choice and no other one. Naming several choices is wrong,
// with the signal `several_choices`: a guess that covers the question earns nothing.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "base/status.h"
#include "reward/verifier.h"
#include "sandbox/template.h"

namespace ingot::reward {

// The choices that `text` names. A capital letter of `choices` counts where neither a letter, a digit nor an apostrophe
// is beside it, but "A" in front of a lower-case word is the article. A text of one letter may be a small one. The last
// \boxed{..} of the text counts alone, and otherwise what stands behind its last "answer is" or "answer:".
std::set<char> NamedChoices(std::string_view text, std::string_view choices);

absl::StatusOr<std::unique_ptr<const Verifier>> MakeChoice(const VerifierOptions& options, sandbox::Template expected);

}  // namespace ingot::reward
