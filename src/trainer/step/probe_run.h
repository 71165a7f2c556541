// Runs one step's probe (trainer/probe.h). Its source runs while the gradient is computed. Then its calls are scored
// with the weights that sampled them. The destructor waits for the source. Used by one thread. Throws c10::Error.
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
  // Starts `source` on another thread unless it is null or the options disable the probe. The arguments must outlive
  // this object.
  ProbeRun(const TrainerOptions& options, const Policy& policy, const ProbeSource& source);

  // Waits for the calls and adds their gaps to `mismatch`. Call before the policy changes. If the source fails or
  // returns too few tokens, this is only logged.
  void Finish(LogprobGap& mismatch);

 private:
  absl::StatusOr<std::vector<tree::CallPath>> AwaitCalls();
  absl::Status Score(LogprobGap& mismatch);
  // Scores the merged forest of some of the calls.
  absl::Status ScoreMerged(const std::vector<tree::CallPath>& calls, const std::vector<int32_t>& indices,
                           LogprobGap& mismatch) const;

  const TrainerOptions& options_;
  const Policy& policy_;
  std::future<absl::StatusOr<std::vector<tree::CallPath>>> calls_;  // invalid = no probe is running
};

}  // namespace ingot::trainer
