// StepTally holds one training step's sums over parts and ranks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "trainer/metrics.h"
#include "trainer/pass/step_bound.h"
#include "trainer/update_spread.h"

namespace ingot::trainer {

struct StepTally {
  // Plain values: ranks exchange their raw bytes.
  struct Plain {
    double loss = 0;
    int64_t merged_tokens = 0;    // rows in the batch's merged forest
    int64_t computed_tokens = 0;  // rows that were computed; more than merged_tokens if ranks share a prefix
    int64_t parts = 0;
    int64_t route_conflicts = 0;  // RecordedRoutes::conflicts
    int64_t scorings = 0;         // passes that scored the batch before its gradient
    double pass_seconds = 0;      // wall time of scorings, forward, loss, and backward; maximum over ranks
    double busy_seconds = 0;      // pass_seconds minus exchanges between ranks; sum over ranks
    double longest_busy_seconds = 0;
    double variance_seconds = 0;  // wall time of single groups' gradients, not in pass_seconds; maximum over ranks
    UpdateSpread spread;
    StepWork work, unmerged;  // work done in pass_seconds, and for the same calls unmerged
    MeanMax entropy;
    LogprobGap offpolicy;  // every trained token
    LogprobGap mismatch;   // the probe's tokens
    LogprobGap packed;     // the batch's tokens sampled at this version, in merged forests

    void Add(const Plain& other) {
      loss += other.loss;
      merged_tokens += other.merged_tokens;
      computed_tokens += other.computed_tokens;
      parts += other.parts;
      route_conflicts += other.route_conflicts;
      scorings = std::max(scorings, other.scorings);
      pass_seconds = std::max(pass_seconds, other.pass_seconds);
      busy_seconds += other.busy_seconds;
      longest_busy_seconds = std::max(longest_busy_seconds, other.longest_busy_seconds);
      variance_seconds = std::max(variance_seconds, other.variance_seconds);
      spread.Add(other.spread);
      work.Add(other.work);
      unmerged.Add(other.unmerged);
      entropy.Add(other.entropy);
      offpolicy.Add(other.offpolicy);
      mismatch.Add(other.mismatch);
      packed.Add(other.packed);
    }
  };

  Plain plain;
  MetricSums sums;                        // the objective's tallies
  std::vector<int32_t> non_finite_calls;  // indices into the batch's calls
};

}  // namespace ingot::trainer
