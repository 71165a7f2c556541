// The servers that the reward terms of a run ask.
#pragma once

#include "app/roles/role.h"
#include "base/status.h"
#include "reward/term_parts.h"

namespace ingot::app {

// The tokenizer is read for terms that ask models alone.
absl::StatusOr<reward::TermParts> ServersOfTerms(const RoleContext& context);

}  // namespace ingot::app
