// Malformed tool calls, a process reward: each call of the policy with a tool call that its output format cannot read earns
// -1 / (the policy's calls), at its own turn. Forge (MiniMax, section 4.2) names the target, without a number.
#pragma once

#include "reward/term.h"

namespace ingot::reward {

class MalformedCallTerm final : public EpisodeTerm {
 protected:
  absl::StatusOr<TermResult> Of(const EpisodeFacts& episode) const override;
};

}  // namespace ingot::reward
