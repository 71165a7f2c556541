// Returns the outcome, which is the reward posted by the verifier or the agent's owner, including rewards for single
// calls.
#pragma once

#include "reward/term.h"

namespace ingot::reward {

class OutcomeTerm final : public EpisodeTerm {
 protected:
  absl::StatusOr<TermResult> Of(const EpisodeFacts& episode) const override;
};

}  // namespace ingot::reward
