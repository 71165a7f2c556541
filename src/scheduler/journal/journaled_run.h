// The state of a run, and its journal. A record is durable before it takes effect. Apply is the only code that applies
// records, both live and when the journal is replayed after a restart. A record that contradicts earlier records is an
// error.
//
//   Write --> JournalWriter --> the pool --+--> Apply --> policy     which groups may be admitted and trained
//   a restart reads the journal ----------+              groups     the samples of admitted groups
//                                                         sampler    which task a new group gets
//   CatchUp: a record whose write failed;                 evals      evaluations
//   deadlines                                             steps, checkpoints
//                                                         halt       when the run must end
//
// State that only the journal changes is const here. The rest also changes when samples are handed out and end. After a
// restart, those changes are read from the pool's episodes (recovery.h).
//
// Not thread safe. Write and CatchUp block for at most one RPC.
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
  // Creates a run with an empty journal. `clock` must outlive this object.
  JournaledRun(const SchedulerOptions& options, TaskSampler sampler, HaltRules halt, JournalWriter journal,
               const base::Clock& clock, SchedulerMetrics metrics);

  // ---- The journal
  // Writes the record to the journal, then applies it. If the write fails, nothing changes and the record is unresolved
  // (journal_writer.h).
  absl::Status Write(v1::JournalRecord record);
  // Writes and applies an unresolved record, and fails groups and episodes past their deadline. Must be called before
  // any other change.
  absl::Status CatchUp();
  // Applies a record. Returns FAILED_PRECONDITION, NOT_FOUND, or OUT_OF_RANGE if it contradicts earlier records.
  absl::Status Apply(const v1::JournalRecord& record);
  // Called when the entire journal, with this many records, has been replayed.
  void EndReplay(int64_t records);
  // Called after the replay: the run continues from this checkpoint, and no version is live. Returns
  // FAILED_PRECONDITION if the journal lacks batches below the checkpoint or begins after it.
  absl::Status ResumeAt(int64_t checkpoint);

  // ---- Events that are not in the journal
  // Returns a waiting evaluation sample, or nullopt if none is waiting.
  std::optional<v1::Ticket> NextEvalTicket() { return evals_.NextTicket(clock_.Now()); }
  // Records the end of an episode. Returns false if nothing changed (train_groups.h, eval_board.h), and
  // INVALID_ARGUMENT if there is no such episode.
  absl::StatusOr<bool> EndEpisode(const v1::ReportEpisodeEndRequest& ended);
  // Returns the same errors as EvalBoard::Start.
  absl::Status StartEval(const v1::StartEvalRequest& request, const EvalBoard::Attempts& used);
  // Passes the clock, the live version, and the running evaluations to the groups.
  void AdvanceGroups() { groups_.Advance(clock_.Now(), policy_.live_version(), evals_.active()); }

  // ---- Checks
  // Returns FAILED_PRECONDITION for a step below the journal's first step.
  absl::Status BeginsAfter(int64_t step) const;
  // Returns FAILED_PRECONDITION if the checkpoint includes batches that do not exist.
  absl::Status CheckCheckpoint(int64_t step) const;
  // Return FAILED_PRECONDITION if a rule ends the run (halt_rules.h).
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
  // Returns whether engines hold policy().live_version(). False = no version has become live since the run resumed.
  bool live_known() const { return live_known_; }
  bool all_batches_made() const { return policy_.next_step() >= options_.total_steps; }
  int64_t running() const { return groups_.running() + evals_.running(); }  // episodes
  // Returns the journal index below which the trees of all records' groups may be deleted.
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
