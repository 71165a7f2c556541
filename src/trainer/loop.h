// The training run as a loop over batches. It owns no model and no data, only the order of the calls.
//
//   [publish the start version]
//   for step in [trainer.version(), total_steps):
//     batch = source.Next(step)        journalled by the source before it returns
//     trainer.TrainStep(batch)         makes version step + 1
//     sink.Publish(version step + 1)   then the engines follow it
//   observer.OnStep(report)          also if publishing failed
//     checkpoint step + 1, if due      contains exactly the batches below step + 1
//
// The checkpoint of a version comes after the report of the step that made it, and after the version is live. So no
// checkpoint covers a step without a report, and rollout continues while it is written. A run that dies before the
// checkpoint makes that version again from the journal, bit for bit.
//
// The loop stops at the first error and returns it, annotated with the step; CANCELLED from the source stops a run. If
// the trainer then holds a complete version that no checkpoint has, the loop saves it first, due or not, so that an
// error loses no training. Single-threaded, blocks; the caller's thread is the training thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/status.h"
#include "proto/scheduler.pb.h"
#include "trainer/batch_source.h"
#include "trainer/probe.h"
#include "trainer/trainer.h"
#include "weights/publisher.h"

namespace ingot::trainer {

// Takes the versions that the loop makes; the app implements it with a weights::Publisher and the scheduler. Called
// from the loop's thread.
class VersionSink {
 public:
  virtual ~VersionSink() = default;
  // Returns when the version is live on every leased engine and the scheduler knows it.
  virtual absl::StatusOr<weights::PublishStats> Publish(std::shared_ptr<const weights::Snapshot> snapshot,
                                                        bool retain) = 0;
  // Called after the checkpoint is durable, to journal it.
  virtual absl::Status OnCheckpoint(const CheckpointInfo& checkpoint) = 0;
};

class StepObserver {
 public:
  virtual ~StepObserver() = default;
  // Called after the step's version is live, or publishing it failed. `batch` is the batch that was trained. An error
  // stops the run.
  virtual absl::Status OnStep(const StepReport& report, const TrainBatch& batch) = 0;
};

struct LoopOptions {
  std::string checkpoint_root;                     // empty = no checkpoints
  std::map<std::string, std::string> extra_files;  // into every checkpoint, by name below its folder
  bool publish_start = true;                       // publish the start version before requesting the first batch
  std::function<bool(int64_t version)> retain;     // versions that engines hold next to newer ones; null = none
  // Takes the trainer's version for publishing; null = use TakeSnapshot.
  std::function<absl::StatusOr<std::shared_ptr<const weights::Snapshot>>()> take;
  // Retries `write` while its error may be transient; `what` names the write. Null = call `write` once.
  std::function<absl::Status(const std::string& what, const std::function<absl::Status()>& write)> persist;
  int64_t end = -1;  // last version, at most total_steps (the rate's decay still ends there); -1 = total_steps
};

class TrainLoop {
 public:
  // All references must outlive the loop; `observer` and `probe` may be null.
  TrainLoop(const LoopOptions& options, Trainer& trainer, BatchSource& source, VersionSink& sink,
            StepObserver* observer, ProbeSource probe, const base::Clock& clock = base::Clock::Real());

  // Runs to options().total_steps of the trainer, or LoopOptions::end. A finished run only publishes its version.
  absl::Status Run();

 private:
  int64_t End() const { return options_.end >= 0 ? options_.end : trainer_.options().total_steps; }
  absl::Status RunStep(int64_t step);
  // `copied`: gets the time at which the snapshot was complete; may be null.
  absl::StatusOr<weights::PublishStats> PublishCurrent(std::chrono::nanoseconds* copied = nullptr);
  // Saves the version that the previous step made, if its checkpoint is due. It is called at the start of the next
  // step, when that version is live and reported; its time counts in the next step.
  absl::Status SaveDueCheckpoint();
  // Saves the trainer's version, unless it is already saved.
  absl::Status SaveCheckpoint();

  const LoopOptions options_;
  Trainer& trainer_;
  BatchSource& source_;
  VersionSink& sink_;
  StepObserver* const observer_;
  const ProbeSource probe_;
  const base::Clock& clock_;
  int64_t saved_ = 0;  // version of the newest checkpoint, or the version that Run began with
  bool whole_ = true;  // no TrainStep is under way or failed: the trainer holds its version whole
};

}  // namespace ingot::trainer
