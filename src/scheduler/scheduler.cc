#include "scheduler/scheduler.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/log.h"
#include "scheduler/journal/recovery.h"

namespace ingot::scheduler {
namespace {

// How often a waiting NextBatch checks the clock and deadlines, in real time.
constexpr std::chrono::milliseconds kSweepEvery(250);
constexpr int64_t kLongestWaitMs = 3'600'000;

// ---- Functions of the run, called with the lock held

v1::FeedStats StatsOf(const StepHistory::Step& step, const JournaledRun& run, int64_t grading) {
  const WindowedFifo& policy = run.policy();
  v1::FeedStats stats;
  stats.set_admitted_unreleased(policy.admitted_unreleased());
  stats.set_budget(policy.budget());
  stats.set_window(policy.window());
  stats.set_head(policy.head());
  stats.set_next_group(policy.next_group());
  stats.set_finished_outside_window(policy.finished_outside_window());
  stats.set_dropped(run.steps().dropped());
  stats.set_failed(run.steps().failed());
  stats.set_running_episodes(run.running());
  stats.set_finished_episodes(run.halt().finished_episodes());
  stats.set_grading(grading);
  const int64_t finished = step.dropped + step.groups;
  stats.set_dropped_fraction(finished == 0 ? 0 : static_cast<double>(step.dropped) / static_cast<double>(finished));
  stats.set_reward_episodes(step.rewards.episodes);
  stats.set_reward_mean(step.rewards.episodes == 0 ? 0 : step.rewards.sum / static_cast<double>(step.rewards.episodes));
  return stats;
}

std::string WhyNoBatch(const JournaledRun& run, const Outcomes& outcomes) {
  const WindowedFifo& policy = run.policy();
  const std::string unjudged = outcomes.LastError();
  const std::string& last_failure = run.halt().last_failure();
  return absl::StrCat(
      "batch ", policy.next_step(), " has ", policy.pending(), " of ", policy.groups_per_step(), " groups; ",
      run.groups().running(), " episodes are running, ", policy.admitted_unreleased(), " of ", policy.budget(),
      " groups are in use, ", policy.finished_outside_window(), " finished groups are waiting for group ",
      policy.head(),
      outcomes.grading() == 0 ? "" : absl::StrCat("; ", outcomes.grading(), " are waiting for their reward"),
      unjudged.empty() ? "" : absl::StrCat(" (the last attempt: ", unjudged, ")"), "; ", run.steps().current().dropped,
      " were dropped since the last batch", run.live_known() ? "" : "; no version is live yet",
      last_failure.empty() ? "" : absl::StrCat("; the last failure: ", last_failure));
}

// Returns FAILED_PRECONDITION if the run has no such batch yet, and OUT_OF_RANGE if it never will.
absl::Status CheckStep(int64_t step, int64_t total_steps, const JournaledRun& run) {
  if (step < 0 || step >= total_steps) {
    return absl::OutOfRangeError(absl::StrCat("batch ", step, ": the run has ", total_steps, " steps"));
  }
  if (step > run.policy().next_step()) {
    return absl::FailedPreconditionError(
        absl::StrCat("batch ", step, " was requested before batch ", run.policy().next_step()));
  }
  if (step < run.policy().first_step()) return run.BeginsAfter(step);
  return absl::OkStatus();
}

absl::StatusOr<v1::Batch> WriteBatch(const std::vector<int64_t>& groups, JournaledRun& run) {
  v1::JournalRecord record;
  record.mutable_batch()->set_step(run.policy().next_step());
  record.mutable_batch()->mutable_group_ids()->Add(groups.begin(), groups.end());
  v1::Batch batch = record.batch();
  INGOT_RETURN_IF_ERROR(run.Write(std::move(record)));
  return batch;
}

// Journals the run's return to `version`, and fences the running episodes of later versions.
absl::Status GoBackTo(int64_t version, JournaledRun& run) {
  v1::JournalRecord record;
  record.mutable_live()->set_version(version);
  const std::vector<v1::EpisodeRef> fenced = run.groups().Running(version + 1);
  record.mutable_live()->mutable_fenced()->Assign(fenced.begin(), fenced.end());
  INGOT_LOG(info, "the trainer went back from version {} to {}, so {} running episodes with later versions are fenced",
            run.policy().live_version(), version, fenced.size());
  return run.Write(std::move(record));
}

// ---- Functions of the pool, which block and are called without the lock

absl::StatusOr<v1::Batch> ReadBatch(datapool::Client& pool, int64_t step, int64_t journal_index) {
  v1::ReadJournalRequest place;
  place.set_from_index(journal_index);
  place.set_limit(1);
  INGOT_ASSIGN_OR_RETURN(v1::ReadJournalResponse read, pool.ReadJournal(place));
  if (read.records().empty() || !read.records(0).has_batch() || read.records(0).batch().step() != step) {
    return absl::DataLossError(absl::StrCat("the journal no longer has batch ", step, " at ", journal_index));
  }
  return std::move(*read.mutable_records(0)->mutable_batch());
}

absl::StatusOr<EvalBoard::Attempts> UsedEvalAttempts(datapool::Client& pool, int64_t first_group, int64_t last_group) {
  EvalBoard::Attempts used;
  datapool::EpisodePages pages(pool, v1::PURPOSE_EVAL, first_group, last_group);
  while (!pages.done()) {
    INGOT_ASSIGN_OR_RETURN(const v1::ListEpisodesResponse page, pages.Next());
    for (const v1::Episode& episode : page.episodes()) {
      int32_t& attempt = used[{episode.ref().group_id(), episode.ref().sample_index()}];
      attempt = std::max(attempt, episode.ref().attempt());
    }
  }
  return used;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Scheduler>> Scheduler::Recover(const SchedulerOptions& options,
                                                              std::vector<v1::Task> tasks, datapool::Client& pool,
                                                              const base::Clock& clock,
                                                              std::optional<ResumePoint> resume, base::Metrics* metrics,
                                                              const Grading& grading, int64_t fencing_token) {
  INGOT_RETURN_IF_ERROR(options.Validate());
  if (tasks.empty() && options.total_steps > 0) {
    return absl::InvalidArgumentError(
        "the scheduler has no tasks to train on: set data.tasks to a file with at least one task");
  }
  INGOT_ASSIGN_OR_RETURN(TaskSampler sampler, TaskSampler::Make(std::move(tasks), options.sampling, options.seed));
  JournaledRun run(options, std::move(sampler), HaltRules(options, grading.give_up_groups),
                   JournalWriter(pool, static_cast<uint64_t>(clock.UnixNanos()), fencing_token), clock,
                   SchedulerMetrics(metrics));
  INGOT_RETURN_IF_ERROR(base::Annotate(RecoverRun(pool, clock, resume, run), "recovering the scheduler"));
  std::unique_ptr<Scheduler> scheduler(
      new Scheduler(options, pool, clock, SchedulerMetrics(metrics), grading, std::move(run)));
  base::MutexLock lock(scheduler->mu_);
  INGOT_RETURN_IF_ERROR(scheduler->DecideOutcomes());
  scheduler->outcomes_.StartAsking();
  scheduler->NotifyChange();
  return scheduler;
}

Scheduler::Scheduler(const SchedulerOptions& options, datapool::Client& pool, const base::Clock& clock,
                     SchedulerMetrics metrics, const Grading& grading, JournaledRun run)
    : total_steps_(options.total_steps),
      pool_(pool),
      clock_(clock),
      trimmer_(pool),
      run_(std::move(run)),
      admissions_(options, metrics),
      outcomes_(options, grading, clock, metrics,
                [this](int64_t group_id, absl::StatusOr<v1::GradeResponse> graded) {
                  OnGraded(group_id, std::move(graded));
                }),
      metrics_(metrics) {}

absl::Status Scheduler::Prepare() {
  if (shut_down_) return absl::CancelledError("the scheduler is shut down");
  INGOT_RETURN_IF_ERROR(run_.CatchUp());
  return DecideOutcomes();
}

absl::Status Scheduler::DecideOutcomes() {
  INGOT_ASSIGN_OR_RETURN(const bool changed, outcomes_.Decide(run_));
  if (changed) NotifyChange();
  return absl::OkStatus();
}

void Scheduler::NotifyChange() {
  metrics_.SetWindow(StatsOf(run_.steps().current(), run_, outcomes_.grading()), run_.policy().pending(),
                     run_.live_known() ? run_.policy().live_version() : -1);
  changed_.SignalAll();
}

void Scheduler::OnGraded(int64_t group_id, absl::StatusOr<v1::GradeResponse> graded) {
  base::MutexLock lock(mu_);
  if (shut_down_) return;
  outcomes_.Answer(group_id, std::move(graded));
  // The next call resolves a failed write.
  if (const absl::Status decided = Prepare(); !decided.ok()) {
    INGOT_LOG(warn, "the reward of group {} is not in the journal yet: {}", group_id, std::string(decided.message()));
  }
}

// ---- Samples -------------------------------------------------------------------------------------------------------

absl::StatusOr<v1::Ticket> Scheduler::Admit(const v1::AdmitRequest& request) {
  INGOT_RETURN_IF_ERROR(Admissions::Validate(request));
  base::MutexLock lock(mu_);
  INGOT_RETURN_IF_ERROR(Prepare());
  INGOT_ASSIGN_OR_RETURN(v1::Ticket ticket, admissions_.Admit(request, run_));
  if (ticket.purpose() == v1::PURPOSE_TRAIN) NotifyChange();
  handed_.Add(ticket, request.gateway(), run_);
  return ticket;
}

absl::Status Scheduler::ReportEpisodeEnd(const v1::ReportEpisodeEndRequest& request) {
  base::MutexLock lock(mu_);
  INGOT_RETURN_IF_ERROR(Prepare());
  INGOT_ASSIGN_OR_RETURN(const bool changed, run_.EndEpisode(request));
  // The first end of an attempt counts even if its group is over. A repeated report does not count.
  const bool first = handed_.Remove(request.purpose(), request.ref());
  if (changed || first) {
    metrics_.CountEpisode(request.state());
    if (!request.cause().empty()) metrics_.CountFailure(request.cause());
    run_.halt().EpisodeEnded(request, clock_.Now());
  }
  return DecideOutcomes();
}

absl::StatusOr<v1::ReconcileResponse> Scheduler::Reconcile(const v1::ReconcileRequest& request) {
  base::MutexLock lock(mu_);
  INGOT_RETURN_IF_ERROR(Prepare());
  INGOT_ASSIGN_OR_RETURN(v1::ReconcileResponse found, handed_.Reconcile(request.gateway(), pool_, run_));
  INGOT_RETURN_IF_ERROR(DecideOutcomes());
  NotifyChange();
  return found;
}

// ---- The feed ------------------------------------------------------------------------------------------------------

absl::StatusOr<v1::NextBatchResponse> Scheduler::NextBatch(const v1::NextBatchRequest& request) {
  const int64_t step = request.step();
  const std::chrono::milliseconds wait(std::clamp<int64_t>(request.wait_ms(), 0, kLongestWaitMs));
  v1::NextBatchResponse response;
  int64_t journal_index = -1;
  {
    base::MutexLock lock(mu_);
    INGOT_ASSIGN_OR_RETURN(std::optional<v1::Batch> made, AwaitBatch(step, clock_.Now() + wait));
    if (run_.live_known() && step < run_.policy().live_version()) INGOT_RETURN_IF_ERROR(GoBackTo(step, run_));
    admissions_.BatchFed(step);
    *response.mutable_stats() = StatsOf(run_.steps().at(step), run_, outcomes_.grading());
    if (made.has_value()) {
      *response.mutable_batch() = *std::move(made);
      return response;
    }
    journal_index = run_.steps().at(step).journal_index;
  }
  INGOT_ASSIGN_OR_RETURN(*response.mutable_batch(), ReadBatch(pool_, step, journal_index));
  return response;
}

absl::StatusOr<std::optional<v1::Batch>> Scheduler::AwaitBatch(int64_t step, std::chrono::nanoseconds deadline) {
  while (true) {
    INGOT_RETURN_IF_ERROR(Prepare());
    INGOT_RETURN_IF_ERROR(CheckStep(step, total_steps_, run_));
    if (step < run_.policy().next_step()) return std::nullopt;
    INGOT_RETURN_IF_ERROR(run_.halt().CheckTerms());  // other terms may work without it
    if (const auto groups = run_.policy().ReadyBatch()) {
      INGOT_ASSIGN_OR_RETURN(v1::Batch batch, WriteBatch(*groups, run_));
      NotifyChange();
      return batch;
    }
    INGOT_RETURN_IF_ERROR(run_.CheckGroups());
    const std::chrono::nanoseconds left = deadline - clock_.Now();
    if (left.count() <= 0) return absl::DeadlineExceededError(WhyNoBatch(run_, outcomes_));
    changed_.WaitFor(mu_, std::min<std::chrono::nanoseconds>(left, kSweepEvery));
  }
}

absl::Status Scheduler::MarkVersionLive(int64_t version) {
  base::MutexLock lock(mu_);
  INGOT_RETURN_IF_ERROR(Prepare());
  const WindowedFifo& policy = run_.policy();
  if (version < 0 || version > policy.next_step()) {
    return absl::OutOfRangeError(
        absl::StrCat("version ", version, " cannot be live: the last batch creates version ", policy.next_step()));
  }
  if (run_.live_known() && version <= policy.live_version()) return absl::OkStatus();  // reported late or twice
  v1::JournalRecord record;
  record.mutable_live()->set_version(version);
  INGOT_RETURN_IF_ERROR(run_.Write(std::move(record)));
  NotifyChange();
  return absl::OkStatus();
}

absl::Status Scheduler::MarkCheckpoint(const v1::CheckpointRequest& request) {
  base::MutexLock lock(mu_);
  INGOT_RETURN_IF_ERROR(Prepare());
  INGOT_RETURN_IF_ERROR(run_.CheckCheckpoint(request.step()));
  if (run_.checkpoints().IsNewest(request.step(), request.weights_checksum())) return absl::OkStatus();
  v1::JournalRecord record;
  record.mutable_checkpoint()->set_step(request.step());
  record.mutable_checkpoint()->set_weights_checksum(request.weights_checksum());
  return run_.Write(std::move(record));
}

// ---- Evaluation, status --------------------------------------------------------------------------------------------

absl::StatusOr<v1::StartEvalResponse> Scheduler::StartEval(const v1::StartEvalRequest& request) {
  {
    base::MutexLock lock(mu_);
    INGOT_RETURN_IF_ERROR(Prepare());
    INGOT_RETURN_IF_ERROR(run_.evals().Validate(request));
  }
  v1::StartEvalResponse groups = EvalBoard::Groups(request);
  INGOT_ASSIGN_OR_RETURN(const auto used, UsedEvalAttempts(pool_, groups.first_group(), groups.last_group()));
  base::MutexLock lock(mu_);
  INGOT_RETURN_IF_ERROR(run_.StartEval(request, used));
  return groups;
}

absl::StatusOr<v1::EvalStatusResponse> Scheduler::EvalStatus(int64_t version) {
  base::MutexLock lock(mu_);
  INGOT_RETURN_IF_ERROR(Prepare());
  INGOT_ASSIGN_OR_RETURN(v1::EvalStatusResponse status, run_.evals().Status(version));
  if (!status.done()) INGOT_RETURN_IF_ERROR(run_.CheckUnstarted(status.failed() == status.total()));
  return status;
}

absl::StatusOr<v1::SchedulerStatusResponse> Scheduler::Status() {
  base::MutexLock lock(mu_);
  v1::SchedulerStatusResponse status;
  *status.mutable_stats() = StatsOf(run_.steps().last_made(), run_, outcomes_.grading());
  status.set_next_step(run_.policy().next_step());
  status.set_finished(run_.all_batches_made());
  return status;
}

absl::Status Scheduler::Tick() {
  {
    base::MutexLock lock(mu_);
    INGOT_RETURN_IF_ERROR(Prepare());
  }
  // After a restart, one call skips all records whose trees are already deleted.
  for (int64_t deleted = 0; deleted == 0;) {
    int64_t end = 0;
    {
      base::MutexLock lock(mu_);
      if (shut_down_) return absl::OkStatus();
      end = run_.TrimEnd();
    }
    if (trimmer_.Done(end)) return absl::OkStatus();
    INGOT_ASSIGN_OR_RETURN(deleted, trimmer_.DeleteNext(end));
  }
  return absl::OkStatus();
}

void Scheduler::Shutdown() {
  base::MutexLock lock(mu_);
  shut_down_ = true;
  changed_.SignalAll();
}

}  // namespace ingot::scheduler
