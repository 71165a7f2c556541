// The training run as a loop over batches: owns no model and no data, only the order of things.
//
//   [publish the start version]
//   for step in [trainer.version(), total_steps):
//     batch = source.Next(step)        journalled by the source before it returns
//     trainer.TrainStep(batch)         makes version step + 1
//     sink.Publish(version step + 1)   then the engines follow it
//     observer.OnStep(report)          also where that failed
//     checkpoint step + 1, if due      contains exactly the batches below step + 1
//
// A checkpoint comes after the report of the step it ends with, so that none covers a step that nobody heard of, and
// while rollout goes on with the version it holds. A run that dies before it makes that version again from the journal,
// bit for bit. Stops at the first error and returns it, annotated with the step; CANCELLED from the source is how a run
// is stopped. A version that is whole and in no checkpoint is saved before that, due or not: what has been trained is
// not trained again because something else went wrong. Single-threaded, blocks; the caller's thread is the training
// thread.
#pragma once

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

// Where versions go; the app puts a weights::Publisher and the scheduler behind it. Called from the loop's thread.
class VersionSink {
 public:
  virtual ~VersionSink() = default;
  // Returns when the version is live on every leased engine and the scheduler knows it.
  virtual absl::StatusOr<weights::PublishStats> Publish(std::shared_ptr<const weights::Snapshot> snapshot,
                                                        bool retain) = 0;
  // The checkpoint is durable: to be journalled.
  virtual absl::Status OnCheckpoint(const CheckpointInfo& checkpoint) = 0;
};

class StepObserver {
 public:
  virtual ~StepObserver() = default;
  // After the step's version is live, or could not be made so. The batch is what was trained. An error stops the run.
  virtual absl::Status OnStep(const StepReport& report, const TrainBatch& batch) = 0;
};

struct LoopOptions {
  std::string checkpoint_root;                     // empty: no checkpoints
  std::map<std::string, std::string> extra_files;  // into every checkpoint, by plain file name
  bool publish_start = true;                       // publish the start version before the first batch is asked for
  std::function<bool(int64_t version)> retain;     // versions the engines hold beside newer ones; null: none
  // Calls `write` again while its error may pass by itself; `what` names it. Null: it is called once.
  std::function<absl::Status(const std::string& what, const std::function<absl::Status()>& write)> persist;
};

class TrainLoop {
 public:
  // All must outlive the loop; `observer` may be null, `probe` too.
  TrainLoop(const LoopOptions& options, Trainer& trainer, BatchSource& source, VersionSink& sink,
            StepObserver* observer, ProbeSource probe, const base::Clock& clock = base::Clock::Real());

  // Runs to options().total_steps of the trainer. A run that is complete already only publishes.
  absl::Status Run();

 private:
  absl::Status RunStep(int64_t step);
  absl::StatusOr<weights::PublishStats> PublishCurrent();
  // Of the version that the step before made: its weights are live by then, and what it reported is written, so that a
  // checkpoint never covers a step without a report. Its time is the following step's.
  absl::Status SaveDueCheckpoint();
  // Unless the version is saved already.
  absl::Status SaveCheckpoint();

  const LoopOptions options_;
  Trainer& trainer_;
  BatchSource& source_;
  VersionSink& sink_;
  StepObserver* const observer_;
  const ProbeSource probe_;
  const base::Clock& clock_;
  int64_t saved_ = 0;  // version of the newest checkpoint, or the one Run began with
  bool whole_ = true;  // the trainer holds what its version names: no step failed on its way
};

}  // namespace ingot::trainer
