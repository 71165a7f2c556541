// The state of a run, and its journal: a record is durable before its effect, and Apply is the only effect, live and in
// the replay at the next start. A record that contradicts earlier records is an error.
//
//   Write --> JournalWriter --> the pool --+--> Apply --> policy     which groups may be admitted and trained
//   the next start reads the journal ------+              groups     the samples of admitted groups
//                                                         sampler    which task a new group gets
//   CatchUp: a record whose write failed;                 evals      evaluations
//   deadlines                                             steps, checkpoints
//                                                         halt       when the run must end
//
// What only the journal changes is const here. The rest also changes with samples handed out and ended, which the next
// start reads from the pool's episodes (recovery.h).
//
// Not thread safe. Write and CatchUp block for at most one rpc.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "base/clock.h"
#include "base/status.h"
#include "proto/journal.pb.h"
#include "proto/scheduler.pb.h"
#include "scheduler/eval_board.h"
#include "scheduler/journal/checkpoints.h"
#include "scheduler/journal/halt_rules.h"
#include "scheduler/journal/journal_writer.h"
#include "scheduler/journal/step_history.h"
#include "scheduler/options.h"
#include "scheduler/policy.h"
#include "scheduler/scheduler_metrics.h"
#include "scheduler/task_sampler.h"
#include "scheduler/train_groups.h"

namespace ingot::scheduler {

class JournaledRun {
 public:
  // A run with an empty journal. `clock` outlives it.
  JournaledRun(const SchedulerOptions& options, TaskSampler sampler, HaltRules halt, JournalWriter journal,
               const base::Clock& clock, SchedulerMetrics metrics);

  // ---- The journal
  // Journals the record, then applies it. A write that fails changes nothing; its record is then unresolved
  // (journal_writer.h).
  absl::Status Write(v1::JournalRecord record);
  // Writes and applies an unresolved record, and fails groups and episodes whose deadline has passed. REQUIRED before
  // any other change.
  absl::Status CatchUp();
  // The effect of a journal record. FAILED_PRECONDITION, NOT_FOUND or OUT_OF_RANGE: the record contradicts earlier
  // records.
  absl::Status Apply(const v1::JournalRecord& record);
  // The journal was replayed and has this many records.
  void EndReplay(int64_t records);
  // After the replay: the run continues from this checkpoint. No version is live. FAILED_PRECONDITION: the journal
  // lacks batches below the checkpoint, or begins after it.
  absl::Status ResumeAt(int64_t checkpoint);

  // ---- Events that the journal does not hold
  // A waiting sample of an evaluation; nullopt = none waits.
  std::optional<v1::Ticket> NextEvalTicket() { return evals_.NextTicket(clock_.Now()); }
  // An episode ended. False = nothing changed (train_groups.h, eval_board.h). INVALID_ARGUMENT: no such episode.
  absl::StatusOr<bool> EndEpisode(const v1::ReportEpisodeEndRequest& ended);
  // Errors: EvalBoard::Start's.
  absl::Status StartEval(const v1::StartEvalRequest& request, const EvalBoard::Attempts& used);
  // Passes the clock, the live version and the running evaluations to the groups.
  void AdvanceGroups() { groups_.Advance(clock_.Now(), policy_.live_version(), evals_.active()); }

  // ---- Checks
  // FAILED_PRECONDITION, for a step below the journal's first one.
  absl::Status BeginsAfter(int64_t step) const;
  // FAILED_PRECONDITION: the checkpoint contains batches that were never made.
  absl::Status CheckCheckpoint(int64_t step) const;
  // FAILED_PRECONDITION: the rules end the run, of which the next batch is not ready.
  absl::Status CheckUnstarted(bool all_failed) const { return halt_.CheckUnstarted(all_failed, clock_.Now()); }
  absl::Status CheckGroups() const { return halt_.CheckGroups(policy_, sampler_.left(), clock_.Now()); }

  const WindowedFifo& policy() const { return policy_; }
  const EvalBoard& evals() const { return evals_; }
  const StepHistory& steps() const { return steps_; }
  const Checkpoints& checkpoints() const { return checkpoints_; }
  const TrainGroups& groups() const { return groups_; }
  TrainGroups& groups() { return groups_; }
  TaskSampler& sampler() { return sampler_; }
  const HaltRules& halt() const { return halt_; }
  HaltRules& halt() { return halt_; }
  // Engines hold policy().live_version(); false = no version became live since the run resumed.
  bool live_known() const { return live_known_; }
  bool all_batches_made() const { return policy_.next_step() >= options_.total_steps; }
  int64_t running() const { return groups_.running() + evals_.running(); }  // episodes
  // The end of the journal records whose groups' trees may be deleted.
  int64_t TrimEnd() const;

 private:
  absl::Status ApplyBegun(const v1::JournalBegun& begun);
  absl::Status ApplyAdmitted(const v1::GroupAdmitted& admitted);
  absl::Status ApplyRewarded(const v1::GroupRewarded& rewarded);
  absl::Status ApplyClosed(const v1::GroupClosed& closed);
  absl::Status ApplyBatch(const v1::JournalRecord& record);
  absl::Status ApplyLive(const v1::VersionLive& live);

  const SchedulerOptions options_;
  const base::Clock& clock_;
  JournalWriter journal_;
  SchedulerMetrics metrics_;
  WindowedFifo policy_;
  TrainGroups groups_;
  TaskSampler sampler_;
  EvalBoard evals_;
  StepHistory steps_;
  Checkpoints checkpoints_;
  HaltRules halt_;
  bool live_known_ = false;
};

}  // namespace ingot::scheduler
