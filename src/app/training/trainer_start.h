// Creates the trainer when a run starts, either after a warm start or from the last checkpoint, and prepares for later
// checkpoints.
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

// Drops the versions. Use it if nothing receives a trainer's versions, or if the caller publishes them itself.
class NoVersionSink final : public trainer::VersionSink {
 public:
  absl::StatusOr<weights::PublishStats> Publish(std::shared_ptr<const weights::Snapshot>, bool) override {
    return weights::PublishStats();
  }
  absl::Status OnCheckpoint(const trainer::CheckpointInfo&) override { return absl::OkStatus(); }
};

// Creates rank 0's trainer and sends its starting point to the other ranks. `ranks` null = one rank. Blocks during the
// warm start. Returns CANCELLED once `stop` is set, and FAILED_PRECONDITION if the checkpoint's model differs from the
// configured one.
absl::StatusOr<std::unique_ptr<trainer::Trainer>> StartOrResume(const RunConfig& config, const RunDir& dir,
                                                                const ModelSetup& model, trainer::Ranks* ranks,
                                                                bool resume, StepLine& line,
                                                                const std::atomic<bool>& stop);

// Writes checkpoint 0 and passes it to `versions`, so a crash before the first regular checkpoint does not repeat the
// warm start. Returns CANCELLED in the same cases as Persist.
absl::Status SaveStart(trainer::Trainer& trainer, const ModelSetup& model, const RunDir& dir,
                       trainer::VersionSink& versions, const RetryPolicy& retry);

// Returns the options for a training loop in the run's folder. REQUIRES: `retry` outlives them.
trainer::LoopOptions LoopOptionsOf(const ModelSetup& model, const RunDir& dir, const RetryPolicy& retry);

// Creates another rank's trainer. Blocks until rank 0 sends its starting point.
absl::StatusOr<std::unique_ptr<trainer::Trainer>> StartAsRankZeroDid(const RunConfig& config, const RunDir& dir,
                                                                     const std::string& device, trainer::Ranks& ranks);

}  // namespace ingot::app
