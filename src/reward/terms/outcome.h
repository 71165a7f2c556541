// The outcome: the reward that the verifier or the agent's owner posted, with its rewards of single calls.
#pragma once

#include "reward/term.h"

namespace ingot::reward {

class OutcomeTerm final : public EpisodeTerm {
 protected:
  absl::StatusOr<TermResult> Of(const EpisodeFacts& episode) const override;
};

}  // namespace ingot::reward
