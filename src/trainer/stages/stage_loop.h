// Runs a supervised stage on rank 0: chooses the order of conversations, and decides when to save and when to stop.
// StageRun runs the steps on all ranks. One object per stage. Used by one thread, which blocks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "trainer/checkpoints/stage_checkpoints.h"
#include "trainer/metrics.h"
#include "trainer/sft.h"
#include "trainer/stages/stage_run.h"
#include "tree/forest.h"

namespace ingot::trainer {

class StageLoop {
 public:
  // `calls` belong to whole conversations or pairs. `seed` shuffles them. The arguments must outlive this object.
  // `observer` may be empty.
  StageLoop(StageRun& stage, const std::vector<tree::CallPath>& calls, const SftObserver& observer, uint64_t seed);

  // Runs the stage to its end, starting from its newest checkpoint in `checkpoints`. Empty `checkpoints` = reads and
  // writes none. Does nothing if there are no conversations. Same errors as Trainer::RunSft.
  absl::Status Run(const std::string& checkpoints);

 private:
  // Runs the steps, starting with step `taken`.
  absl::Status RunSteps(const StageCheckpoints& kept, int64_t taken);
  absl::StatusOr<StepMetrics> RunStep(int64_t step, double learning_rate);
  // Checks a stage after its last steps were skipped. Returns OK if its weights give a finite gradient.
  absl::Status CheckSound();
  // Returns one step's calls, with their episodes numbered from 0.
  std::vector<tree::CallPath> Choose(const std::vector<int64_t>& chosen) const;

  StageRun& stage_;
  const std::vector<tree::CallPath>& calls_;
  const SftObserver& observer_;
  const uint64_t seed_;
  const std::vector<std::vector<size_t>> units_;  // call indices, by conversation or pair
  const int64_t steps_;                           // total steps in the stage
};

}  // namespace ingot::trainer
