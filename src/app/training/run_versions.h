// Publishes the training loop's versions.
#pragma once

#include <memory>

#include "app/run/persist.h"
#include "app/training/best_model.h"
#include "app/training/evaluation.h"
#include "app/training/pinned_versions.h"
#include "app/training/training.h"
#include "base/status.h"
#include "model/config.h"
#include "trainer/loop.h"
#include "weights/publisher.h"

namespace ingot::app {

// Publishes versions, marks them live on the scheduler, and starts evaluations that are due.
class RunVersions final : public trainer::VersionSink {
 public:
  // REQUIRES: all arguments outlive this object.
  RunVersions(const TrainerParts& parts, Evaluations& evaluations, const PinnedVersions& pinned, const BestModel& best,
              const model::ModelConfig& shape, const RetryPolicy& retry)
      : parts_(parts), evaluations_(evaluations), pinned_(pinned), best_(best), shape_(shape), retry_(retry) {}

  absl::StatusOr<weights::PublishStats> Publish(std::shared_ptr<const weights::Snapshot> snapshot,
                                                bool retain) override;
  absl::Status OnCheckpoint(const trainer::CheckpointInfo& checkpoint) override;

 private:
  // Saves the version if its evaluation is about to start. Drops candidates without a running evaluation.
  absl::Status KeepCandidate(const std::shared_ptr<const weights::Snapshot>& snapshot, bool retained);

  const TrainerParts& parts_;
  Evaluations& evaluations_;
  const PinnedVersions& pinned_;
  const BestModel& best_;
  const model::ModelConfig& shape_;
  const RetryPolicy& retry_;
  bool began_ = false;
};

}  // namespace ingot::app
