// Penalizes malformed tool calls as a process reward: each policy call with a tool call that its output format cannot
// parse gets -1 / (number of policy calls) at its own turn. Forge (MiniMax, section 4.2) describes this goal without
// giving a number.
#pragma once

#include "reward/term.h"

namespace ingot::reward {

class MalformedCallTerm final : public EpisodeTerm {
 protected:
  absl::StatusOr<TermResult> Of(const EpisodeFacts& episode) const override;
};

}  // namespace ingot::reward
