// The servers that the reward terms of a run call.
#pragma once

#include "app/roles/role.h"
#include "base/status.h"
#include "reward/term_parts.h"

namespace ingot::app {

// Reads the tokenizer only for terms that call models.
absl::StatusOr<reward::TermParts> ServersOfTerms(const RoleContext& context);

}  // namespace ingot::app
