// Penalizes failed tool calls as a process reward: each policy call that requested a tool whose result was an error
// gets -1 / (number of policy calls) at its own turn. Forge (MiniMax, section 4.2) describes this goal without giving a
// number.
//
// Only the agent knows which results were errors. It posts them as the fact `failed_calls`, a list of turns
// (Call.sequence), call ids, or tool call ids. The list should not include tests that fail on purpose. An episode
// without the fact has no failed calls. If an entry does not match a policy call, the episode's result is an error.
#pragma once

#include "reward/term.h"

namespace ingot::reward {

class FailedCallTerm final : public EpisodeTerm {
 protected:
  absl::StatusOr<TermResult> Of(const EpisodeFacts& episode) const override;
};

}  // namespace ingot::reward
