// The scheduler: admits episodes and feeds batches to the trainer. It guards the windowed FIFO (policy.h) with one lock
// and a journal.
//
//   calls                                             members
//   Admit --> ticket (group, sample, attempt)         policy_   which groups may be admitted and trained
//   ReportEpisodeEnd --> sample done, or tried again      groups_   the samples of admitted groups
//                --> group complete --> reward stage  grades_   groups that wait for their reward
//                --> rewarded, dropped or failed      evals_    evaluations
//   NextBatch <-- P groups, journalled                steps_    each batch's place in the journal, and its rewards
//   MarkVersionLive --> slots released                journal_  the only writer of the pool's journal
//
// Journal. Every event that the next start cannot read from the pool's episodes is a journal record: GroupAdmitted,
// GroupRewarded, GroupClosed, Batch, VersionLive, CheckpointSaved, EvalDone. A record is durable before its effect.
// `Apply` gives it its effect, live and in the replay at the next start. A record that contradicts earlier records is
// an error.
//
// The pool's episodes show which samples are done: a sample is done if its largest attempt is FINISHED there, reported
// or not. An attempt that is open there is running, and its gateway reports its end. So a replayed scheduler makes the
// same decisions, and hands out no sample that is running.
//
// Branching. The journal's GroupAdmitted says how a group branches; the forks themselves are in the pool's episodes
// (train_groups.h), which are durable before an end is reported. A restart thus needs no record of a fork.
//
// Rewards. A group whose samples are all done is judged as a whole, once (grader.h). Until its GroupRewarded record is
// written, it is open: no batch takes it. After a restart the stage is asked again and answers from the pool. Without a
// stage the returns reported with the episodes' ends are journalled at once.
//
// When the whole run starts again, no client is left to end the open attempts. Recover ends them in the pool: as
// FINISHED if their own reward was posted, because that is a judgement, and otherwise as FENCED. Fenced samples are
// tried again.
//
// A write that fails changes nothing, and its call fails. The record is then unresolved: it may be in the journal, or
// may still get there. The next call sends it again before anything else (journal_writer.h).
//
// Resume. A run that goes back to checkpoint c replays the batches c, c + 1, ... from the journal. Versions above c are
// no longer live, and the groups of those batches hold their slots until they are. The scheduler learns of it from
// `resume`, or, if only the trainer restarted, from a request for a batch below the live version. Samples of groups
// admitted under a later version wait until that version is live again, because their tokens would be too old. Running
// attempts of such samples are fenced and tried again.
//
// Threads: thread safe. Calls block under the lock for the pool: for one journal write, and one more for each group
// that closes. NextBatch waits for a full batch without the lock. Errors: RESOURCE_EXHAUSTED carries
// base::RetryAfterMs; CANCELLED after Shutdown; ABORTED once another process wrote the journal.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "base/clock.h"
#include "base/metrics.h"
#include "base/mutex.h"
#include "base/status.h"
#include "datapool/client.h"
#include "scheduler/client.h"
#include "scheduler/eval_board.h"
#include "scheduler/grade_board.h"
#include "scheduler/grader.h"
#include "scheduler/halt_rules.h"
#include "scheduler/journal_writer.h"
#include "scheduler/options.h"
#include "scheduler/policy.h"
#include "scheduler/resume_point.h"
#include "scheduler/scheduler_metrics.h"
#include "scheduler/task_sampler.h"
#include "scheduler/train_groups.h"

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
  using AttemptPlace = std::tuple<v1::EpisodePurpose, int64_t, int32_t, int32_t>;  // purpose, group, sample, attempt
  static AttemptPlace PlaceOf(v1::EpisodePurpose purpose, const v1::EpisodeRef& ref) {
    return {purpose, ref.group_id(), ref.sample_index(), ref.attempt()};
  }
  // Counts of one batch: of its groups and of the groups dropped since the previous batch.
  struct Step {
    int64_t journal_index = -1;  // of its Batch record; -1 = not made yet (the last Step), or in a lost journal
    RewardSum rewards;           // of its groups and of the dropped ones
    int64_t dropped = 0;         // groups
    int64_t groups = 0;          // in the batch
  };
  Scheduler(const SchedulerOptions& options, TaskSampler tasks, datapool::Client& pool, const base::Clock& clock,
            base::Metrics* metrics, const Grading& grading, int64_t fencing_token);

  // recovery.cc
  absl::Status ReadJournal(std::optional<ResumePoint> resume) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status Reconcile(const std::string& gateway, v1::EpisodePurpose purpose,
                         const std::vector<v1::EpisodeRef>& running, v1::ReconcileResponse& found)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status ReadEpisodes(bool end_open) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Ends an open episode that lost its client, in the pool and in the record.
  absl::Status EndLeft(v1::Episode& episode);
  // Begins an empty journal at the checkpoint.
  absl::Status BeginJournal(const ResumePoint& resume) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status ResumeAt(int64_t checkpoint) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::StatusOr<EvalBoard::Attempts> UsedEvalAttempts(int64_t first_group, int64_t last_group);

  // journal_effects.cc
  // Journals the record, then applies it.
  absl::Status Write(v1::JournalRecord record) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The effect of a journal record, live and replayed. FAILED_PRECONDITION, NOT_FOUND or OUT_OF_RANGE: the record
  // contradicts earlier records.
  absl::Status Apply(const v1::JournalRecord& record) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status ApplyBegun(const v1::JournalBegun& begun) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status ApplyAdmitted(const v1::GroupAdmitted& admitted) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status ApplyRewarded(const v1::GroupRewarded& rewarded) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status ApplyClosed(const v1::GroupClosed& closed) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status ApplyBatch(const v1::JournalRecord& record) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status ApplyLive(const v1::VersionLive& live) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // FAILED_PRECONDITION: the journal begins after that step.
  absl::Status BeginsAfter(int64_t step) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status CheckCheckpoint(int64_t step) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status ApplyCheckpoint(const v1::CheckpointSaved& checkpoint) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // Runs first in every call: resolves an unresolved record, applies deadlines and decides the outcome of ended groups.
  absl::Status Prepare() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Passes the clock, the live version and the running evaluations to groups_.
  void AdvanceGroups() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // outcomes.cc
  // Decides and journals the outcome of every ended group, and the result of every evaluation that is done.
  absl::Status DecideOutcomes() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  struct Outcome {
    std::vector<double> returns;  // of the judged episodes
    bool equal = false;           // nothing in them can be trained on
    std::optional<double> success;
    std::string failure;             // empty = the group has its reward
    std::vector<std::string> terms;  // of the reward, which judged the group
    std::string failed_term;         // the term that failed it; empty = another reason
  };
  // nullopt = the group waits for its reward. Asks the reward stage when it is time.
  std::optional<Outcome> OutcomeOf(const EndedGroup& ended) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The share of the outcomes that succeeded; nullopt = there are none.
  std::optional<double> SuccessOf(const std::vector<double>& outcomes) const;
  void AskGrader(const EndedGroup& ended) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status WriteOutcome(int64_t group_id, const Outcome& outcome) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void CountTerms(const Outcome& outcome) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // The end of the journal records whose groups' trees may be deleted.
  int64_t TrimEnd() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status Trim();

  // Notes who got the ticket.
  v1::Ticket HandOver(v1::Ticket ticket, const std::string& gateway) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::StatusOr<v1::Ticket> AdmitTraining(const v1::AdmitRequest& request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // A sample of group `sample_of`, for an episode that starts from a snapshot.
  absl::StatusOr<v1::Ticket> AdmitSampleOf(const v1::AdmitRequest& request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // A sample of the group that the request names; nullopt = no group has that name yet.
  absl::StatusOr<std::optional<v1::Ticket>> AdmitNamed(const v1::AdmitRequest& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status Reject(const std::string& cause, const std::string& text) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool AllBatchesFed() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return policy_.next_step() >= options_.total_steps; }
  // Waits until batch `step` is journalled. Returns the batch if this call made it; nullopt = an earlier call did.
  absl::StatusOr<std::optional<v1::Batch>> AwaitBatch(int64_t step, std::chrono::nanoseconds deadline)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::StatusOr<v1::Batch> WriteBatch(const std::vector<int64_t>& groups) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The batch that the journal holds at this index; blocks for one rpc, without the lock.
  absl::StatusOr<v1::Batch> ReadBatch(int64_t step, int64_t journal_index) ABSL_LOCKS_EXCLUDED(mu_);
  // Journals that the run went back to `version`, and fences the running episodes of later versions.
  absl::Status GoBackTo(int64_t version) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::string WhyNoBatch() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  v1::FeedStats Stats(const Step& step) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Sets the gauges and wakes NextBatch.
  void NotifyChange() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const SchedulerOptions options_;
  const Grading grading_;
  datapool::Client& pool_;
  const base::Clock& clock_;

  base::Mutex mu_;
  base::CondVar changed_;  // signalled by NotifyChange and Shutdown
  TaskSampler sampler_ ABSL_GUARDED_BY(mu_);
  WindowedFifo policy_ ABSL_GUARDED_BY(mu_);
  TrainGroups groups_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, int64_t> named_ ABSL_GUARDED_BY(mu_);  // group ids by AdmitRequest.group, since the run's start
  EvalBoard evals_ ABSL_GUARDED_BY(mu_);
  GradeBoard grades_ ABSL_GUARDED_BY(mu_);
  std::map<AttemptPlace, std::string> handed_
      ABSL_GUARDED_BY(mu_);                      // gateways by running attempt, and by some ended ones
  bool recovered_ ABSL_GUARDED_BY(mu_) = false;  // the reward stage may be asked
  JournalWriter journal_ ABSL_GUARDED_BY(mu_);
  HaltRules halt_ ABSL_GUARDED_BY(mu_);
  SchedulerMetrics metrics_ ABSL_GUARDED_BY(mu_);
  std::vector<Step> steps_ ABSL_GUARDED_BY(mu_);  // by step; the last one's batch is not made yet
  // Engines hold policy_.live_version(); false = no MarkVersionLive since the run resumed.
  bool live_known_ ABSL_GUARDED_BY(mu_) = false;
  bool last_batch_fed_ ABSL_GUARDED_BY(mu_);  // to the trainer, since this process's start
  bool shut_down_ ABSL_GUARDED_BY(mu_) = false;
  std::optional<v1::CheckpointSaved> checkpoint_ ABSL_GUARDED_BY(mu_);  // the newest
  std::set<int64_t> kept_checkpoints_ ABSL_GUARDED_BY(mu_);             // steps that the trainer has not removed
  int64_t trimmed_ ABSL_GUARDED_BY(mu_) = 0;  // the trees of journal records below it are deleted
  int64_t dropped_ ABSL_GUARDED_BY(mu_) = 0;  // groups, since the run's start
  int64_t failed_ ABSL_GUARDED_BY(mu_) = 0;   // groups, since the run's start
};

}  // namespace ingot::scheduler
