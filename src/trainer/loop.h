// Runs training as a loop over batches. Determines only the order of calls, and owns no model or data.
//
//   [publish the start version]
//   for step in [trainer.version(), total_steps):
//     batch = source.Next(step)        the source journals it before it returns
//     [take the device]                if the engines share it
//     trainer.TrainStep(batch)         makes version step + 1
//     sink.Publish(version step + 1)   then the engines switch to it
//     [give the device]                the engines continue on the new version
//     observer.OnStep(report)          also called if publishing failed
//     checkpoint step + 1, if due      includes exactly the batches below step + 1
//
// A version's checkpoint is written after its step has been reported and the version is live. So every step in a
// checkpoint has a report, and rollout continues during the write. A run that crashes before the checkpoint rebuilds
// that version from the journal, bit for bit.
//
// The loop stops at the first error and returns it, annotated with the step. CANCELLED from the source stops a run. If
// the trainer holds a complete version without a checkpoint at that point, the loop first saves it, whether or not it
// is due, so that no training is lost. Single-threaded. Blocks. The caller's thread is the training thread.
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

// Receives the versions that the loop creates. The app implements this with weights::Publisher and the scheduler.
// Called on the loop's thread.
class VersionSink {
 public:
  virtual ~VersionSink() = default;
  // Returns once the version is live on every leased engine and the scheduler has been notified.
  virtual absl::StatusOr<weights::PublishStats> Publish(std::shared_ptr<const weights::Snapshot> snapshot,
                                                        bool retain) = 0;
  // Called once the checkpoint is durable, to journal it.
  virtual absl::Status OnCheckpoint(const CheckpointInfo& checkpoint) = 0;
};

class StepObserver {
 public:
  virtual ~StepObserver() = default;
  // Called after the step's version is live or publishing it has failed. `batch` is the trained batch. An error stops
  // the run.
  virtual absl::Status OnStep(const StepReport& report, const TrainBatch& batch) = 0;
};

struct LoopOptions {
  std::string checkpoint_root;                     // empty = no checkpoints
  std::map<std::string, std::string> extra_files;  // added to every checkpoint, by relative path
  bool publish_start = true;                       // publish the start version before requesting the first batch
  std::function<bool(int64_t version)> retain;     // whether engines retain the version after newer ones; null = no
  // Returns the trainer's current version for publishing. Null = use TakeSnapshot.
  std::function<absl::StatusOr<std::shared_ptr<const weights::Snapshot>>()> take;
  // Retries `write` while its error may be transient. `what` names the write. Null = call `write` once.
  std::function<absl::Status(const std::string& what, const std::function<absl::Status()>& write)> persist;
  // The trainer's turn on a device that it shares with the engines: `take_device` before each step, after the probe is
  // sampled, and `give_device` once the step's version is live or the step has failed. An error of `take_device` fails
  // the step. Null = the trainer has the device to itself.
  std::function<absl::Status()> take_device;
  std::function<void()> give_device;
  int64_t end = -1;  // last version, at most total_steps; does not affect learning-rate decay; -1 = total_steps
};

class TrainLoop {
 public:
  // All references must outlive the loop. `observer` and `probe` may be null.
  TrainLoop(const LoopOptions& options, Trainer& trainer, BatchSource& source, VersionSink& sink,
            StepObserver* observer, ProbeSource probe, const base::Clock& clock = base::Clock::Real());

  // Runs until the trainer's total_steps, or until LoopOptions::end. If the run is already complete, only publishes its
  // version.
  absl::Status Run();

 private:
  int64_t End() const { return options_.end >= 0 ? options_.end : trainer_.options().total_steps; }
  absl::Status RunStep(int64_t step);
  class Turn;  // on a shared device
  // If not null, `copied` is set to the time when the snapshot was complete.
  absl::StatusOr<weights::PublishStats> PublishCurrent(std::chrono::nanoseconds* copied = nullptr);
  // Saves the previous step's version if its checkpoint is due. Called at the start of the next step, when that version
  // is live and reported, so the save counts toward the next step's time.
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
  int64_t saved_ = 0;  // version of the newest checkpoint, or the version at which Run started
  bool whole_ = true;  // no TrainStep is running or has failed, so the trainer holds a complete version
};

}  // namespace ingot::trainer
