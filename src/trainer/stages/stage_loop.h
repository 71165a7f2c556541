// Rank 0's part of a supervised stage: the order of the conversations, when to save, and when to stop. The steps
// themselves are StageRun's, which all ranks make together. One object per stage; one thread, which blocks.
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
  // `calls`: of whole conversations or pairs. `seed` of their shuffling. All arguments outlive this; `observer` may be
  // empty.
  StageLoop(StageRun& stage, const std::vector<tree::CallPath>& calls, const SftObserver& observer, uint64_t seed);

  // Runs the stage to its end, from its newest checkpoint in `checkpoints` (empty = it has none and writes none).
  // Does nothing without conversations. Errors as Trainer::RunSft.
  absl::Status Run(const std::string& checkpoints);

 private:
  // The steps from `taken` on.
  absl::Status RunSteps(const StageCheckpoints& kept, int64_t taken);
  absl::StatusOr<StepMetrics> RunStep(int64_t step, double learning_rate);
  // Judges a stage whose last steps were skipped: OK if its weights give a finite gradient.
  absl::Status CheckSound();
  // The calls of one step, with their episodes numbered from 0.
  std::vector<tree::CallPath> Choose(const std::vector<int64_t>& chosen) const;

  StageRun& stage_;
  const std::vector<tree::CallPath>& calls_;
  const SftObserver& observer_;
  const uint64_t seed_;
  const std::vector<std::vector<size_t>> units_;  // indices of the calls of each conversation or pair
  const int64_t steps_;                           // of the whole stage
};

}  // namespace ingot::trainer
