// The kinds of reward terms. term_kinds.cc has the table, with a row for each.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "reward/options.h"
#include "reward/term.h"
#include "reward/term_parts.h"

namespace ingot::reward {

// Their names, in the order of the table.
const std::vector<std::string>& TermKinds();

// Whether terms of the kind give a value to each token and no reward. Such a term measures "reverse_kl".
bool GivesTokenValues(const std::string& kind);

// INVALID_ARGUMENT names the option, its value and the allowed values.
absl::StatusOr<std::unique_ptr<const RewardTerm>> MakeTerm(const TermOptions& options, const TermParts& parts = {});

// Binds the options of every kind, each in the section with the kind's name. A term of another kind may not set them.
void BindKinds(base::Schema& schema, TermOptions& term);

}  // namespace ingot::reward
