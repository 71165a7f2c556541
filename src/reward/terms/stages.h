// Reads the stages of an orchestrator's episode for the PARL terms. The orchestrator posts them as the fact `stages`,
// with one entry per stage. An entry has the number of model calls made by the orchestrator and by each sub-agent in
// the stage:
//
//   [{"main": 1}, {"main": 1, "sub": [3, 5]}, {"main": 1}]
//
// Sub-agents call another model in gateway.models, so the term can check these numbers against the gateway's record.
// Their sums must equal the numbers of answered policy calls and answered calls to other models (CallFacts.policy).
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "reward/facts.h"

namespace ingot::reward {

struct Stage {
  int64_t main = 0;          // the orchestrator's own calls
  std::vector<int64_t> sub;  // calls of each sub-agent in the stage
  // Returns the number of sub-agents that made a call.
  int64_t working() const;
};

// Returns INVALID_ARGUMENT if the fact is malformed or its sums differ from the record. If the fact is missing and the
// episode called only the policy, returns one stage with all calls. If it also called other models, a missing fact is
// an error.
absl::StatusOr<std::vector<Stage>> StagesOf(const EpisodeFacts& episode);

}  // namespace ingot::reward
