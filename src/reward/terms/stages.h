// The stages of an orchestrator's episode, for the PARL terms. The orchestrator posts them as the fact `stages`, one entry
// per stage, with the model calls that it and each sub-agent of the stage made:
//
//   [{"main": 1}, {"main": 1, "sub": [3, 5]}, {"main": 1}]
//
// Sub-agents run on pinned versions, so the term can check the numbers against the record: their sums must equal the
// answered calls of the policy and of other models in the record.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "reward/facts.h"

namespace ingot::reward {

struct Stage {
  int64_t main = 0;          // the orchestrator's own calls
  std::vector<int64_t> sub;  // calls of each sub-agent of the stage
  // Sub-agents that made a call.
  int64_t working() const;
};

// INVALID_ARGUMENT: the fact has another form, or its sums differ from the record. An episode without the fact has one
// stage with all its calls if it called only the policy; otherwise the missing fact is an error.
absl::StatusOr<std::vector<Stage>> StagesOf(const EpisodeFacts& episode);

}  // namespace ingot::reward
