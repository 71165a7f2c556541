// The scheduler: admits episodes and feeds batches to the trainer. Plain objects decide, and it guards them with one
// lock.
//
//   call                        part                       what it does
//   Admit                   --> Admissions                 hands out a sample: of an evaluation, a group, a new group
//   ReportEpisodeEnd        --> JournaledRun               notes that a sample is done or tried again
//   Reconcile               --> HandedAttempts             finds the ends that a gateway did not report
//   every call              --> Outcomes                   gets and journals the rewards of complete groups
//   NextBatch               --> JournaledRun, HaltRules    chooses the next P groups, or ends the run
//   MarkVersionLive, others --> JournaledRun               journals it and applies it: slots are released
//   Tick                    --> TreeTrimmer                deletes the trees of old steps, without the lock
//
// JournaledRun owns the state of the run (journal/journaled_run.h): the windowed FIFO, the groups, the tasks, the
// evaluations, the batches. The other parts change it through its records and samples, and know no scheduler.
//
// Journal. Every event that the next start cannot read from the pool's episodes is a journal record: GroupAdmitted,
// GroupRewarded, GroupClosed, Batch, VersionLive, CheckpointSaved, EvalDone. The pool's episodes show which samples are
// done (journal/recovery.h). So a replayed scheduler makes the same decisions.
//
// Branching. The journal's GroupAdmitted says how a group branches; the forks themselves are in the pool's episodes
// (train_groups.h), which are durable before an end is reported. A restart thus needs no record of a fork.
//
// A write that fails changes nothing, and its call fails. The record is then unresolved: it may be in the journal, or
// may still get there. The next call sends it again before anything else (journal/journal_writer.h).
//
// Resume. A run that goes back to checkpoint c replays the batches c, c + 1, ... from the journal. Versions above c are
// no longer live, and the groups of those batches hold their slots until they are. The scheduler learns of it from
// `resume`, or, if only the trainer restarted, from a request for a batch below the live version. Samples of groups
// admitted under a later version wait until that version is live again, because their tokens would be too old. Running
// attempts of such samples are fenced and tried again.
//
// Threads: thread safe. Calls block under the lock for the pool: for one journal write, and one more for each group
// that closes; Reconcile also lists episodes. Without the lock, NextBatch waits for a full batch and reads an earlier
// one, StartEval lists episodes, and Tick deletes trees. Errors: RESOURCE_EXHAUSTED carries base::RetryAfterMs;
// CANCELLED after Shutdown; ABORTED once another process wrote the journal.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/metrics.h"
#include "base/mutex.h"
#include "base/status.h"
#include "datapool/client.h"
#include "scheduler/admissions.h"
#include "scheduler/client.h"
#include "scheduler/grader.h"
#include "scheduler/handed_attempts.h"
#include "scheduler/journal/journaled_run.h"
#include "scheduler/options.h"
#include "scheduler/outcomes.h"
#include "scheduler/resume_point.h"
#include "scheduler/scheduler_metrics.h"
#include "scheduler/tree_trimmer.h"

namespace ingot::scheduler {

class Scheduler final : public Client {
 public:
  // Replays the journal of `pool` and reads the episodes of its open groups; an empty pool starts a new run. `tasks`:
  // at least one, unless total_steps is 0. `pool`, `clock` and `metrics` (null = no metrics) must outlive the
  // scheduler.
  //
  // `resume`: the checkpoint from which the whole run starts; step 0 = a new run. No version is live, and nothing is
  // admitted, before the first MarkVersionLive. With an empty pool the journal begins at the checkpoint. nullopt = only
  // the scheduler restarted: the last live version of the journal is live.
  //
  // `fencing_token`: of every append (datapool::LeadJournal). 0 = something else ensures one writer of the journal.
  //
  // Errors: DATA_LOSS names the journal record that contradicts earlier records. FAILED_PRECONDITION: the journal lacks
  // batches below the checkpoint, or begins after it.
  static absl::StatusOr<std::unique_ptr<Scheduler>> Recover(const SchedulerOptions& options,
                                                            std::vector<v1::Task> tasks, datapool::Client& pool,
                                                            const base::Clock& clock, std::optional<ResumePoint> resume,
                                                            base::Metrics* metrics = nullptr,
                                                            const Grading& grading = {}, int64_t fencing_token = 0);

  absl::StatusOr<v1::Ticket> Admit(const v1::AdmitRequest& request) override;
  absl::Status ReportEpisodeEnd(const v1::ReportEpisodeEndRequest& request) override;
  absl::StatusOr<v1::ReconcileResponse> Reconcile(const v1::ReconcileRequest& request) override;
  absl::StatusOr<v1::NextBatchResponse> NextBatch(const v1::NextBatchRequest& request) override;
  absl::Status MarkVersionLive(int64_t version) override;
  absl::Status MarkCheckpoint(const v1::CheckpointRequest& request) override;
  absl::StatusOr<v1::StartEvalResponse> StartEval(const v1::StartEvalRequest& request) override;
  absl::StatusOr<v1::EvalStatusResponse> EvalStatus(int64_t version) override;
  absl::StatusOr<v1::SchedulerStatusResponse> Status() override;

  // Fails groups and episodes whose deadline has passed, as every other call does, and deletes the trees of old steps
  // (keep_steps), some at a time, while other calls continue. The app calls it once a second, from one thread.
  absl::Status Tick();

  // Ends a waiting NextBatch and every later call with CANCELLED.
  void Shutdown();

 private:
  Scheduler(const SchedulerOptions& options, datapool::Client& pool, const base::Clock& clock, SchedulerMetrics metrics,
            const Grading& grading, JournaledRun run);

  // Runs first in every call: writes an unresolved record, applies deadlines and decides the outcome of ended groups.
  absl::Status Prepare() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Decides what can be decided, and wakes NextBatch if anything was.
  absl::Status DecideOutcomes() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Sets the gauges and wakes NextBatch.
  void NotifyChange() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Waits until batch `step` is journalled; releases the lock while it waits. Returns the batch if this call made it;
  // nullopt = an earlier call did.
  absl::StatusOr<std::optional<v1::Batch>> AwaitBatch(int64_t step, std::chrono::nanoseconds deadline)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The reward stage answered, on a thread of Grading.executor.
  void OnGraded(int64_t group_id, absl::StatusOr<v1::GradeResponse> graded) ABSL_LOCKS_EXCLUDED(mu_);

  const int64_t total_steps_;
  datapool::Client& pool_;
  const base::Clock& clock_;
  TreeTrimmer trimmer_;  // used by Tick, in one thread and without the lock

  base::Mutex mu_;
  base::CondVar changed_;  // signalled by NotifyChange and Shutdown
  JournaledRun run_ ABSL_GUARDED_BY(mu_);
  Admissions admissions_ ABSL_GUARDED_BY(mu_);
  HandedAttempts handed_ ABSL_GUARDED_BY(mu_);
  Outcomes outcomes_ ABSL_GUARDED_BY(mu_);
  SchedulerMetrics metrics_ ABSL_GUARDED_BY(mu_);
  bool shut_down_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace ingot::scheduler
