// The trainer's state at the start of a run, which is new weights after a warm start or the run's last checkpoint, and
// what its loop needs to save later ones.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "app/models/model_setup.h"
#include "app/run/persist.h"
#include "app/run/run_config.h"
#include "app/run/run_dir.h"
#include "app/terminal/terminal.h"
#include "base/status.h"
#include "trainer/loop.h"
#include "trainer/parallel/ranks.h"
#include "trainer/trainer.h"

namespace ingot::app {

// The trainer of rank 0, which sends its start to the other ranks. `ranks`: null = one rank. Blocks for the warm start:
// CANCELLED once `stop` is set. FAILED_PRECONDITION: the checkpoint has a different model than the configuration.
absl::StatusOr<std::unique_ptr<trainer::Trainer>> StartOrResume(const RunConfig& config, const RunDir& dir,
                                                                const ModelSetup& model, trainer::Ranks* ranks,
                                                                bool resume, StepLine& line,
                                                                const std::atomic<bool>& stop);

// Writes checkpoint 0, so that a crash before the first due checkpoint repeats no warm start, and passes it to
// `versions`. CANCELLED: Persist's.
absl::Status SaveStart(trainer::Trainer& trainer, const ModelSetup& model, const RunDir& dir,
                       trainer::VersionSink& versions, const RetryPolicy& retry);

// The options of a training loop in the run's folder. `retry` outlives them.
trainer::LoopOptions LoopOptionsOf(const ModelSetup& model, const RunDir& dir, const RetryPolicy& retry);

// The trainer of another rank, which waits for rank 0's start.
absl::StatusOr<std::unique_ptr<trainer::Trainer>> StartAsRankZeroDid(const RunConfig& config, const RunDir& dir,
                                                                     const std::string& device, trainer::Ranks& ranks);

}  // namespace ingot::app
