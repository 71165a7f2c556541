// Failed tool calls, a process reward: each call of the policy that asked for a tool whose result was an error earns
// -1 / (the policy's calls), at its own turn. Forge (MiniMax, section 4.2) names the target, without a number.
//
// The agent knows which results were errors. It posts them as the fact `failed_calls`, a list of turns (Call.sequence), ids
// of calls, or ids of tool calls. A test that fails on purpose does not belong there. An episode without the fact had no
// failed call. An entry that does not name a call of the policy makes the episode's result an error.
#pragma once

#include "reward/term.h"

namespace ingot::reward {

class FailedCallTerm final : public EpisodeTerm {
 protected:
  absl::StatusOr<TermResult> Of(const EpisodeFacts& episode) const override;
};

}  // namespace ingot::reward
