// Admission of episodes and the feed of batches: the windowed FIFO (policy.h) under one lock, with a journal.
//
//   Admit --> ticket (group, sample, attempt)         policy_   which groups may be trained, slots
//   EpisodeEnded --> sample done / tried again        groups_   samples of admitted groups
//                --> group complete, dropped, failed  evals_    evaluations
//   NextBatch <-- P groups, journalled                steps_    where in the journal each batch is, and what it saw
//   MarkVersionLive --> slots released                journal_  the only writer of the pool's journal
//
// Every change of what is consumed is a journal record first (GroupAdmitted, GroupClosed, Batch, VersionLive,
// CheckpointSaved, EvalDone), durable before its effect; the effect is applied by the same code that replays the
// journal at the next start (Apply). What is not journalled is read from the pool's episodes: a sample whose largest
// attempt is FINISHED there is done, whether or not its end was ever reported here. If a write fails, the call fails
// and nothing has changed yet; the next call first sends the same record again, since it may have been written, or be
// written yet, all the same.
//
// Resume. A run that goes back to checkpoint c replays batches c, c+1, ... from the journal: versions above c are not
// live any more and the groups of those batches hold their slots until they are. Going back is recognised by
// `resume_step`, or, when the trainer alone restarted, by its asking for a batch below the live version. Samples of a
// group that was admitted under a version not yet made again wait for it: their tokens must not be older than the
// window's bound. Those that run just then are fenced, and tried again.
//
// Threads: thread safe. Calls block for the pool (one journal write, more when groups close), under the lock:
// admissions are as fast as the journal. NextBatch waits for a full batch without it. Failure: RESOURCE_EXHAUSTED
// carries base::RetryAfterMs; CANCELLED after Shutdown; ABORTED once somebody else wrote the journal.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/metrics.h"
#include "base/mutex.h"
#include "base/status.h"
#include "datapool/client.h"
#include "scheduler/client.h"
#include "scheduler/eval_board.h"
#include "scheduler/journal_writer.h"
#include "scheduler/options.h"
#include "scheduler/policy.h"
#include "scheduler/scheduler_metrics.h"
#include "scheduler/task_sampler.h"
#include "scheduler/train_groups.h"

namespace ingot::scheduler {

class Scheduler final : public Client {
 public:
  // Reads the journal and the episodes that matter from `pool`; on an empty pool this starts a new run. `tasks`: at
  // least one, unless total_steps is 0.
  //
  // `resume_step`: the checkpoint the whole run starts from (0 for a new run). No version is live until MarkVersionLive
  // says so, and nothing is admitted before. FAILED_PRECONDITION if the journal does not hold the batches below it.
  // nullopt: the scheduler alone restarted, and the journal's last live version still is.
  //
  // DATA_LOSS: the journal contradicts itself. `pool`, `clock` and `metrics` (may be null) must outlive the scheduler.
  static absl::StatusOr<std::unique_ptr<Scheduler>> Recover(const SchedulerOptions& options,
                                                            std::vector<v1::Task> tasks, datapool::Client& pool,
                                                            const base::Clock& clock,
                                                            std::optional<int64_t> resume_step,
                                                            base::Metrics* metrics = nullptr);

  absl::StatusOr<v1::Ticket> Admit(const v1::AdmitRequest& request) override;
  absl::Status EpisodeEnded(const v1::EpisodeEndedRequest& request) override;
  absl::StatusOr<v1::ReconcileResponse> Reconcile() override;
  absl::StatusOr<v1::NextBatchResponse> NextBatch(const v1::NextBatchRequest& request) override;
  absl::Status MarkVersionLive(int64_t version) override;
  absl::Status MarkCheckpoint(const v1::CheckpointRequest& request) override;
  absl::StatusOr<v1::StartEvalResponse> StartEval(const v1::StartEvalRequest& request) override;
  absl::StatusOr<v1::EvalStatusResponse> EvalStatus(int64_t version) override;
  absl::StatusOr<v1::SchedulerStatusResponse> Status() override;

  // Fails groups and episodes whose deadline has passed. Every call does so too; the app calls this now and then (once
  // a second, from one thread) for the time in which nobody calls. And deletes trees that are kept no longer
  // (keep_steps), some at a time, while other calls go on.
  absl::Status Tick();

  // Unblocks NextBatch, and refuses every later call, with CANCELLED.
  void Shutdown();

 private:
  // What was seen while a batch was assembled: its own groups, and those dropped since the batch before.
  struct Step {
    int64_t journal_index = -1;  // of its Batch record; -1: not made yet (the last Step only)
    RewardSum rewards;
    int64_t dropped = 0;
    int64_t groups = 0;
  };
  // Which step a consumed group belongs to, for the batches that may be replayed; kept only while recovering.
  using StepOfGroup = std::map<int64_t, int64_t>;

  Scheduler(const SchedulerOptions& options, std::vector<v1::Task> tasks, datapool::Client& pool,
            const base::Clock& clock, base::Metrics* metrics);

  // recovery.cc
  absl::Status ReadJournal(std::optional<int64_t> resume_step) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status Reconcile(v1::EpisodePurpose purpose, const std::vector<v1::EpisodeRef>& running,
                         v1::ReconcileResponse& found) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status ReadEpisodes(const StepOfGroup& step_of_group) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void CountReward(const v1::Episode& episode, const StepOfGroup& step_of_group) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status GoBackTo(std::optional<int64_t> resume_step, bool live_was_told) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::StatusOr<EvalBoard::Attempts> UsedEvalAttempts(int64_t first_group, int64_t last_group);

  // Applies what the journal says, live and at recovery.
  absl::Status Apply(const v1::JournalRecord& record) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status ApplyAdmitted(const v1::GroupAdmitted& admitted) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status ApplyClosed(const v1::GroupClosed& closed) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status ApplyBatch(const v1::JournalRecord& record) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status ApplyLive(const v1::VersionLive& live) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status CheckCheckpoint(int64_t step) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status ApplyCheckpoint(const v1::CheckpointSaved& checkpoint) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // Journals the record, then applies it.
  absl::Status Write(v1::JournalRecord record) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // What every call does first: settle a journal record in doubt, deadlines, groups that are due.
  absl::Status Prepare() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Tells the groups what their time depends on.
  void TimeGroups() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Moves on what is complete or failed.
  absl::Status SettleAll() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status SettleGroup(const SettledGroup& settled) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // Where the journal's records of batches end whose trees are kept no longer.
  int64_t TrimEnd() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status Trim();

  absl::StatusOr<v1::Ticket> AdmitTraining(const v1::AdmitRequest& request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::StatusOr<std::optional<v1::Ticket>> AdmitNamed(const v1::AdmitRequest& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status Refuse(const std::string& cause, const std::string& text) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool AllBatchesFed() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return policy_.next_step() >= options_.total_steps; }
  // Waits until batch `step` is journalled. The batch if this call made it; nullopt = an earlier one did.
  absl::StatusOr<std::optional<v1::Batch>> AwaitBatch(int64_t step, std::chrono::nanoseconds deadline)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::StatusOr<v1::Batch> WriteBatch(const std::vector<int64_t>& groups) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The batch that the journal holds at this index; blocks for one rpc, without the lock.
  absl::StatusOr<v1::Batch> ReadBatch(int64_t step, int64_t journal_index) ABSL_LOCKS_EXCLUDED(mu_);
  // Journals that the run went back to `version`, and fences the running episodes of later ones.
  absl::Status GoBackLive(int64_t version) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::string WhyNoBatch() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Not OK once the run has only failed for too long.
  absl::Status CheckFailures() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  v1::FeedStats Stats(const Step& step) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Changed() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const SchedulerOptions options_;
  datapool::Client& pool_;
  const base::Clock& clock_;
  const bool has_tasks_;

  base::Mutex mu_;
  base::CondVar changed_;  // a group was settled, or Shutdown
  TaskSampler sampler_ ABSL_GUARDED_BY(mu_);
  WindowedFifo policy_ ABSL_GUARDED_BY(mu_);
  TrainGroups groups_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, int64_t> named_ ABSL_GUARDED_BY(mu_);  // groups that their openers named, since the run's start
  EvalBoard evals_ ABSL_GUARDED_BY(mu_);
  JournalWriter journal_ ABSL_GUARDED_BY(mu_);
  SchedulerMetrics metrics_ ABSL_GUARDED_BY(mu_);
  std::vector<Step> steps_ ABSL_GUARDED_BY(mu_);  // by step; the last is being assembled
  bool live_known_ ABSL_GUARDED_BY(mu_) =
      false;                                  // engines hold policy_.live_version(); false: not told since the start
  bool last_batch_fed_ ABSL_GUARDED_BY(mu_);  // to the trainer, since this process's start
  bool shut_down_ ABSL_GUARDED_BY(mu_) = false;
  std::optional<v1::CheckpointSaved> checkpoint_ ABSL_GUARDED_BY(mu_);
  std::set<int64_t> kept_checkpoints_ ABSL_GUARDED_BY(mu_);  // steps of those that the trainer has not removed
  int64_t trimmed_ ABSL_GUARDED_BY(mu_) = 0;                 // journal records below it: their trees were deleted
  int64_t dropped_ ABSL_GUARDED_BY(mu_) = 0;                 // since the run's start
  int64_t failed_ ABSL_GUARDED_BY(mu_) = 0;                  // since the run's start
  int64_t finished_episodes_ ABSL_GUARDED_BY(mu_) = 0;       // since this process's start
  std::string last_failure_ ABSL_GUARDED_BY(mu_);
  int64_t failed_in_a_row_ ABSL_GUARDED_BY(mu_) = 0;             // with no group that finished among them
  std::chrono::nanoseconds failing_since_ ABSL_GUARDED_BY(mu_);  // where that is not 0
};

}  // namespace ingot::scheduler
