// The scheduler admits episodes and feeds batches to the trainer. Plain objects, guarded by one lock, make the
// decisions.
//
//   call                        part                       what it does
//   Admit                   --> Admissions                 hands out a sample of an evaluation, a group, or a new group
//   ReportEpisodeEnd        --> JournaledRun               records that a sample is done or is retried
//   Reconcile               --> HandedAttempts             finds ended episodes that no gateway reported
//   every call              --> Outcomes                   gets and journals the rewards of complete groups
//   NextBatch               --> JournaledRun, HaltRules    chooses the next P groups, or ends the run
//   MarkVersionLive, others --> JournaledRun               journals and applies the event, which may release slots
//   Tick                    --> TreeTrimmer                deletes the trees of old steps, without the lock
//
// JournaledRun (journal/journaled_run.h) owns the state of the run: the windowed FIFO, the groups, the tasks, the
// evaluations, and the batches. The other parts change it through its records and samples, and do not depend on the
// scheduler.
//
// Journal. Every event that a restart cannot derive from the pool's episodes is a journal record: GroupAdmitted,
// GroupRewarded, GroupClosed, Batch, VersionLive, CheckpointSaved, EvalDone. The pool's episodes show which samples are
// done (journal/recovery.h). So a replayed scheduler makes the same decisions.
//
// Branching. GroupAdmitted specifies how a group branches. The forks themselves are in the pool's episodes
// (train_groups.h), which are durable before the end of an episode is reported. So a restart needs no records of forks.
//
// If a write fails, the call that made it fails and changes nothing. The record is then unresolved: it may be in the
// journal, or may still be added. The next call first resends it (journal/journal_writer.h).
//
// Resume. A run that goes back to checkpoint c replays the batches c, c + 1, ... from the journal. Versions above c are
// no longer live, and the groups in those batches hold their slots until they are live again. The scheduler detects
// this from `resume` or, if only the trainer restarted, from a request for a batch below the live version. Samples in
// groups admitted under a later version wait until that version is live again, because otherwise their tokens would be
// too old. Running attempts of such samples are fenced and retried.
//
// Threads: thread safe. Calls block on the pool while holding the lock: for one journal write, plus one for each group
// that closes. Reconcile also lists episodes. NextBatch releases the lock to wait for a full batch or read an earlier
// one, StartEval to list episodes, and Tick to delete trees. Errors: RESOURCE_EXHAUSTED includes base::RetryAfterMs.
// Calls return CANCELLED after Shutdown, and ABORTED once another process has written to the journal.
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
  // Replays the journal of `pool` and reads the episodes of its open groups. An empty pool starts a new run. `tasks`
  // has at least one task, unless total_steps is 0. `pool`, `clock`, and `metrics` (null = no metrics) must outlive the
  // scheduler.
  //
  // `resume` is the checkpoint from which the entire run resumes; step 0 = a new run. In both cases, no version is
  // live, and nothing is admitted before the first MarkVersionLive. If the pool is empty, the journal begins at the
  // checkpoint. nullopt = only the scheduler restarted, and the journal's last live version is live.
  //
  // `fencing_token` is sent with every append (datapool::LeadJournal). 0 = the caller ensures a single writer.
  //
  // Returns DATA_LOSS, with the record's index, if a journal record contradicts earlier records, and
  // FAILED_PRECONDITION if the journal lacks batches below the checkpoint or begins after it.
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

  // Fails groups and episodes that are past their deadline, as every other call does. Also deletes the trees of old
  // steps (keep_steps), a few at a time, while other calls continue. The app calls this once per second, from one
  // thread.
  absl::Status Tick();

  // Makes a waiting NextBatch and every later call return CANCELLED.
  void Shutdown();

 private:
  Scheduler(const SchedulerOptions& options, datapool::Client& pool, const base::Clock& clock, SchedulerMetrics metrics,
            const Grading& grading, JournaledRun run);

  // Runs first in every call: writes an unresolved record, applies deadlines, and decides the outcome of ended groups.
  absl::Status Prepare() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Decides as many outcomes as possible, and wakes NextBatch if there were any.
  absl::Status DecideOutcomes() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Sets the gauges and wakes NextBatch.
  void NotifyChange() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Waits until batch `step` is journaled, without holding the lock. Returns the batch if this call made it, or nullopt
  // if an earlier call did.
  absl::StatusOr<std::optional<v1::Batch>> AwaitBatch(int64_t step, std::chrono::nanoseconds deadline)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Handles an answer from the reward stage. Called on a thread of Grading.executor.
  void OnGraded(int64_t group_id, absl::StatusOr<v1::GradeResponse> graded) ABSL_LOCKS_EXCLUDED(mu_);

  const int64_t total_steps_;
  datapool::Client& pool_;
  const base::Clock& clock_;
  TreeTrimmer trimmer_;  // used by Tick, on one thread and without the lock

  base::Mutex mu_;
  base::CondVar changed_;  // signaled by NotifyChange and Shutdown
  JournaledRun run_ ABSL_GUARDED_BY(mu_);
  Admissions admissions_ ABSL_GUARDED_BY(mu_);
  HandedAttempts handed_ ABSL_GUARDED_BY(mu_);
  Outcomes outcomes_ ABSL_GUARDED_BY(mu_);
  SchedulerMetrics metrics_ ABSL_GUARDED_BY(mu_);
  bool shut_down_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace ingot::scheduler
