// Creates reward terms by kind. The table in term_kinds.cc has a row for each kind.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "reward/options.h"
#include "reward/term.h"
#include "reward/term_parts.h"

namespace ingot::reward {

// Returns the names of the kinds in table order.
const std::vector<std::string>& TermKinds();

// Returns true if terms of this kind give values to tokens and no reward. Such terms measure "reverse_kl".
bool GivesTokenValues(const std::string& kind);

// Returns INVALID_ARGUMENT with the option, its value, and the allowed values.
absl::StatusOr<std::unique_ptr<const RewardTerm>> MakeTerm(const TermOptions& options, const TermParts& parts = {});

// Binds every kind's options in a section named after the kind. A term may only set the options for its own kind.
void BindKinds(base::Schema& schema, TermOptions& term);

}  // namespace ingot::reward
