// The probe of one step (trainer/probe.h): its source runs while the gradient is computed; then its calls are scored
// with the weights that sampled them. Its destructor waits for the source. One thread; throws c10::Error.
#pragma once

#include <future>
#include <vector>

#include "base/status.h"
#include "trainer/metrics.h"
#include "trainer/options.h"
#include "trainer/policy/policy.h"
#include "trainer/probe.h"
#include "tree/forest.h"

namespace ingot::trainer {

class ProbeRun {
 public:
  // Starts `source` on another thread, unless it is null or options ask for no probe. The arguments outlive this.
  ProbeRun(const TrainerOptions& options, const Policy& policy, const ProbeSource& source);

  // Waits for the calls and adds their gaps to `mismatch`, before the policy changes. A source that fails, or has too
  // few tokens, is logged.
  void Finish(LogprobGap& mismatch);

 private:
  absl::StatusOr<std::vector<tree::CallPath>> AwaitCalls();
  absl::Status Score(LogprobGap& mismatch);
  // Scores the merged forest of some of the calls.
  absl::Status ScoreMerged(const std::vector<tree::CallPath>& calls, const std::vector<int32_t>& indices,
                           LogprobGap& mismatch) const;

  const TrainerOptions& options_;
  const Policy& policy_;
  std::future<absl::StatusOr<std::vector<tree::CallPath>>> calls_;  // not valid: no probe runs
};

}  // namespace ingot::trainer
