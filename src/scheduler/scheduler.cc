#include "scheduler/scheduler.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/retry.h"

namespace ingot::scheduler {
namespace {

// How often a waiting NextBatch checks the clock and deadlines, in real time.
constexpr std::chrono::milliseconds kSweepEvery(250);
constexpr int64_t kLongestWaitMs = 3'600'000;
// Journal records whose trees one Tick deletes: a batch or two of a large run.
constexpr int64_t kTrimRecords = 200;

Asker AskerOf(const v1::AdmitRequest& request) { return {.runner = request.runner(), .scaffold = request.scaffold()}; }

}  // namespace

Scheduler::Scheduler(const SchedulerOptions& options, TaskSampler tasks, datapool::Client& pool,
                     const base::Clock& clock, base::Metrics* metrics, const Grading& grading, int64_t fencing_token)
    : options_(options),
      grading_(grading),
      pool_(pool),
      clock_(clock),
      sampler_(std::move(tasks)),
      policy_(options.window()),
      groups_(options),
      evals_(options),
      grades_(grading),
      journal_(pool, static_cast<uint64_t>(clock.UnixNanos()), fencing_token),
      halt_(options, grading.give_up_groups),
      metrics_(metrics),
      steps_(1),
      last_batch_fed_(options.total_steps == 0) {}

void Scheduler::AdvanceGroups() { groups_.Advance(clock_.Now(), policy_.live_version(), evals_.active()); }

absl::Status Scheduler::Prepare() {
  if (shut_down_) return absl::CancelledError("the scheduler is shut down");
  INGOT_ASSIGN_OR_RETURN(const auto found, journal_.Resolve());
  if (found.has_value()) INGOT_RETURN_IF_ERROR(Apply(*found));
  AdvanceGroups();
  evals_.Expire(clock_.Now());
  return DecideOutcomes();
}

void Scheduler::NotifyChange() {
  metrics_.SetWindow(Stats(steps_.back()), policy_.pending(), live_known_ ? policy_.live_version() : -1);
  changed_.SignalAll();
}

// ---- Admission -----------------------------------------------------------------------------------------------------

absl::Status Scheduler::Reject(const std::string& cause, const std::string& text) {
  metrics_.CountRejection(cause);
  return base::WithRetryAfter(absl::ResourceExhaustedError(text), options_.retry_after_ms);
}

absl::StatusOr<v1::Ticket> Scheduler::Admit(const v1::AdmitRequest& request) {
  if (request.group().empty() == request.has_task()) {
    return absl::InvalidArgumentError("'group' and 'task' belong together: set both or neither");
  }
  if (request.has_sample_of() && request.has_task()) {
    return absl::InvalidArgumentError("'sample_of' uses the group's task: leave out 'group' and 'task'");
  }
  base::MutexLock lock(mu_);
  INGOT_RETURN_IF_ERROR(Prepare());
  const int64_t running = groups_.running() + evals_.running();
  if (options_.max_concurrent_episodes > 0 && running >= options_.max_concurrent_episodes) {
    return Reject("concurrency", absl::StrCat("max_concurrent_episodes = ", options_.max_concurrent_episodes,
                                              " episodes are running"));
  }
  std::optional<v1::Ticket> of_eval;
  if (request.group().empty() && !request.has_sample_of()) of_eval = evals_.NextTicket(clock_.Now());
  absl::StatusOr<v1::Ticket> ticket = of_eval.has_value() ? *std::move(of_eval) : AdmitTraining(request);
  if (!ticket.ok()) return ticket;
  ticket->set_oldest_group(policy_.head());
  if (ticket->purpose() == v1::PURPOSE_TRAIN) NotifyChange();
  return HandOver(*std::move(ticket), request.gateway());
}

v1::Ticket Scheduler::HandOver(v1::Ticket ticket, const std::string& gateway) {
  // Attempts may end without a report; entries of ended attempts are removed once they are the majority.
  const size_t running = static_cast<size_t>(groups_.running() + evals_.running());
  if (handed_.size() > 2 * running + 64) {
    std::set<AttemptPlace> live;
    for (const v1::EpisodeRef& ref : groups_.Running()) live.insert(PlaceOf(v1::PURPOSE_TRAIN, ref));
    for (const v1::EpisodeRef& ref : evals_.Running()) live.insert(PlaceOf(v1::PURPOSE_EVAL, ref));
    std::erase_if(handed_, [&](const auto& entry) { return !live.contains(entry.first); });
  }
  handed_[PlaceOf(ticket.purpose(), ticket.ref())] = gateway;
  return ticket;
}

absl::StatusOr<v1::Ticket> Scheduler::AdmitSampleOf(const v1::AdmitRequest& request) {
  const int64_t group = request.sample_of();
  if (!groups_.contains(group)) {
    return absl::FailedPreconditionError(absl::StrCat("group ", group, " is over: it accepts no more samples"));
  }
  if (groups_.branches(group)) {
    return absl::FailedPreconditionError(
        absl::StrCat("group ", group, " branches by itself (agents.branching): its runner forks its trunks"));
  }
  auto ticket = groups_.TicketOf(group, AskerOf(request));
  if (ticket.has_value()) return *std::move(ticket);
  return absl::FailedPreconditionError(
      absl::StrCat("group ", group, " has no sample left to run: all ", options_.group_size, " are running or done"));
}

absl::StatusOr<std::optional<v1::Ticket>> Scheduler::AdmitNamed(const v1::AdmitRequest& request) {
  const auto known = named_.find(request.group());
  if (known == named_.end()) return std::nullopt;
  if (groups_.contains(known->second)) {
    const v1::Task& task = groups_.task(known->second);
    const bool same = task.task_id() == request.task().task_id() && task.domain() == request.task().domain() &&
                      task.payload_json() == request.task().payload_json();
    if (!same) {
      return absl::InvalidArgumentError(
          absl::StrCat("group '", request.group(), "' was admitted with another task: a group has one task"));
    }
    if (auto ticket = groups_.TicketOf(known->second)) return ticket;
  }
  return absl::FailedPreconditionError(absl::StrCat("group '", request.group(), "' has no sample left to run: all ",
                                                    options_.group_size, " are running or done, or the group is over"));
}

absl::StatusOr<v1::Ticket> Scheduler::AdmitTraining(const v1::AdmitRequest& request) {
  if (AllBatchesFed()) {
    // A resumed trainer may not have reached the last batch and may evaluate versions meanwhile.
    const bool fed = last_batch_fed_ || (live_known_ && policy_.live_version() >= options_.total_steps);
    if (!fed) return Reject("last_batches", "all batches are journalled; the trainer is not yet at the last");
    const bool eval_to_come = options_.final_eval && !evals_.done(options_.total_steps);
    if (evals_.active() || eval_to_come) {
      return Reject("evaluation", "only the run's last evaluation is left: open its episodes without naming a group");
    }
    return absl::FailedPreconditionError("the run is over: its last batch was fed");
  }
  if (!live_known_) return Reject("no_version", "no policy version is live yet");
  if (request.has_sample_of()) return AdmitSampleOf(request);
  if (!request.group().empty()) {
    INGOT_ASSIGN_OR_RETURN(auto ticket, AdmitNamed(request));
    if (ticket.has_value()) return *std::move(ticket);
  } else if (auto ticket = groups_.NextTicket(AskerOf(request))) {
    return *std::move(ticket);
  }
  // The last batches need no more groups than this; more groups would never be trained.
  const int64_t needed = (options_.total_steps - policy_.next_step()) * options_.groups_per_step;
  if (policy_.unbatched() >= needed) {
    return Reject("last_batches", "all groups that the last batches need are running or done");
  }
  if (!policy_.CanAdmit()) {
    return Reject("window", absl::StrCat("all ", policy_.budget(), " groups of the window are in use"));
  }
  v1::JournalRecord record;
  v1::GroupAdmitted& admitted = *record.mutable_admitted();
  admitted.set_group_id(policy_.next_group());
  if (request.group().empty()) {
    const double earliest = static_cast<double>(policy_.next_step()) / static_cast<double>(options_.total_steps);
    const v1::Task* const task = sampler_.Choose(policy_.next_group(), earliest);
    if (task == nullptr) return Reject("tasks_used_up", TaskSampler::kUsedUp);
    *admitted.mutable_task() = *task;
  } else {
    *admitted.mutable_task() = request.task();
  }
  admitted.set_name(request.group());
  admitted.set_group_size(options_.group_size);
  admitted.set_admitted_version(policy_.live_version());
  // A client that cannot fork gets a group without trunks.
  if (request.group().empty() && !request.runner().empty() && options_.branching.width > 0) {
    admitted.set_branch_width(options_.branching.width);
    admitted.set_branch_at(options_.branching.at);
  }
  INGOT_RETURN_IF_ERROR(Write(std::move(record)));
  auto ticket = groups_.TicketOf(policy_.next_group() - 1, AskerOf(request));
  if (!ticket.has_value()) return absl::InternalError("a group just admitted has no sample to run");
  return *std::move(ticket);
}

absl::Status Scheduler::ReportEpisodeEnd(const v1::ReportEpisodeEndRequest& request) {
  base::MutexLock lock(mu_);
  INGOT_RETURN_IF_ERROR(Prepare());
  absl::StatusOr<bool> changed = false;
  switch (request.purpose()) {
    case v1::PURPOSE_TRAIN:
      if (request.ref().group_id() < 0 || request.ref().group_id() >= policy_.next_group()) {
        return absl::InvalidArgumentError(absl::StrCat("group ", request.ref().group_id(), " was never admitted"));
      }
      changed = groups_.EndEpisode(request);
      break;
    case v1::PURPOSE_EVAL:
      changed = evals_.EndEpisode(request);
      break;
    default:
      return absl::InvalidArgumentError("the scheduler handles only training and evaluation episodes");
  }
  INGOT_RETURN_IF_ERROR(changed.status());
  // The first end of an attempt whose group is over counts too, and a repeated report does not.
  const bool first = handed_.erase(PlaceOf(request.purpose(), request.ref())) > 0;
  if (*changed || first) {
    metrics_.CountEpisode(request.state());
    if (!request.cause().empty()) metrics_.CountFailure(request.cause());
    halt_.EpisodeEnded(request);
  }
  return DecideOutcomes();
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
    if (live_known_ && step < policy_.live_version()) INGOT_RETURN_IF_ERROR(GoBackTo(step));
    last_batch_fed_ = step + 1 == options_.total_steps;
    *response.mutable_stats() = Stats(steps_[static_cast<size_t>(step)]);
    if (made.has_value()) {
      *response.mutable_batch() = *std::move(made);
      return response;
    }
    journal_index = steps_[static_cast<size_t>(step)].journal_index;
  }
  INGOT_ASSIGN_OR_RETURN(*response.mutable_batch(), ReadBatch(step, journal_index));
  return response;
}

absl::StatusOr<std::optional<v1::Batch>> Scheduler::AwaitBatch(int64_t step, std::chrono::nanoseconds deadline) {
  while (true) {
    INGOT_RETURN_IF_ERROR(Prepare());
    if (step < 0 || step >= options_.total_steps) {
      return absl::OutOfRangeError(absl::StrCat("batch ", step, ": the run has ", options_.total_steps, " steps"));
    }
    if (step > policy_.next_step()) {
      return absl::FailedPreconditionError(
          absl::StrCat("batch ", step, " was asked for before batch ", policy_.next_step()));
    }
    if (step < policy_.first_step()) return BeginsAfter(step);
    if (step < policy_.next_step()) return std::nullopt;
    INGOT_RETURN_IF_ERROR(halt_.CheckTerms());  // other terms may work without it
    if (const auto groups = policy_.ReadyBatch()) return WriteBatch(*groups);
    const std::chrono::nanoseconds now = clock_.Now();
    INGOT_RETURN_IF_ERROR(halt_.CheckGroups(policy_, sampler_.left(), now));
    const std::chrono::nanoseconds left = deadline - now;
    if (left.count() <= 0) return absl::DeadlineExceededError(WhyNoBatch());
    changed_.WaitFor(mu_, std::min<std::chrono::nanoseconds>(left, kSweepEvery));
  }
}

absl::Status Scheduler::GoBackTo(int64_t version) {
  v1::JournalRecord record;
  record.mutable_live()->set_version(version);
  const std::vector<v1::EpisodeRef> fenced = groups_.Running(version + 1);
  record.mutable_live()->mutable_fenced()->Assign(fenced.begin(), fenced.end());
  INGOT_LOG(info, "the trainer goes back from version {} to {}; {} running episodes of later versions are fenced",
            policy_.live_version(), version, fenced.size());
  return Write(std::move(record));
}

absl::StatusOr<v1::Batch> Scheduler::ReadBatch(int64_t step, int64_t journal_index) {
  v1::ReadJournalRequest place;
  place.set_from_index(journal_index);
  place.set_limit(1);
  INGOT_ASSIGN_OR_RETURN(v1::ReadJournalResponse read, pool_.ReadJournal(place));
  if (read.records().empty() || !read.records(0).has_batch() || read.records(0).batch().step() != step) {
    return absl::DataLossError(absl::StrCat("the journal no longer holds batch ", step, " at ", journal_index));
  }
  return std::move(*read.mutable_records(0)->mutable_batch());
}

absl::StatusOr<v1::Batch> Scheduler::WriteBatch(const std::vector<int64_t>& groups) {
  v1::JournalRecord record;
  record.mutable_batch()->set_step(policy_.next_step());
  record.mutable_batch()->mutable_group_ids()->Add(groups.begin(), groups.end());
  v1::Batch batch = record.batch();
  INGOT_RETURN_IF_ERROR(Write(std::move(record)));
  NotifyChange();
  return batch;
}

std::string Scheduler::WhyNoBatch() const {
  const std::string unjudged = grades_.LastError();
  return absl::StrCat(
      "batch ", policy_.next_step(), " has ", policy_.pending(), " of ", policy_.groups_per_step(), " groups; ",
      groups_.running(), " episodes are running, ", policy_.admitted_unreleased(), " of ", policy_.budget(),
      " groups are in use, ", policy_.finished_outside_window(), " finished groups wait for group ", policy_.head(),
      grades_.size() == 0 ? "" : absl::StrCat("; ", grades_.size(), " wait for their reward"),
      unjudged.empty() ? "" : absl::StrCat(" (the last attempt: ", unjudged, ")"), "; ", steps_.back().dropped,
      " were dropped since the last batch", live_known_ ? "" : "; no version is live yet",
      halt_.last_failure().empty() ? "" : absl::StrCat("; the last failure: ", halt_.last_failure()));
}

v1::FeedStats Scheduler::Stats(const Step& step) const {
  v1::FeedStats stats;
  stats.set_admitted_unreleased(policy_.admitted_unreleased());
  stats.set_budget(policy_.budget());
  stats.set_window(policy_.window());
  stats.set_head(policy_.head());
  stats.set_next_group(policy_.next_group());
  stats.set_finished_outside_window(policy_.finished_outside_window());
  stats.set_dropped(dropped_);
  stats.set_failed(failed_);
  stats.set_running_episodes(groups_.running() + evals_.running());
  stats.set_finished_episodes(halt_.finished_episodes());
  stats.set_grading(grades_.size());
  const int64_t finished = step.dropped + step.groups;
  stats.set_dropped_fraction(finished == 0 ? 0 : static_cast<double>(step.dropped) / static_cast<double>(finished));
  stats.set_reward_episodes(step.rewards.episodes);
  stats.set_reward_mean(step.rewards.episodes == 0 ? 0 : step.rewards.sum / static_cast<double>(step.rewards.episodes));
  return stats;
}

absl::Status Scheduler::MarkVersionLive(int64_t version) {
  base::MutexLock lock(mu_);
  INGOT_RETURN_IF_ERROR(Prepare());
  if (version < 0 || version > policy_.next_step()) {
    return absl::OutOfRangeError(
        absl::StrCat("version ", version, " cannot be live: the last batch makes version ", policy_.next_step()));
  }
  if (live_known_ && version <= policy_.live_version()) return absl::OkStatus();  // reported late or twice
  v1::JournalRecord record;
  record.mutable_live()->set_version(version);
  INGOT_RETURN_IF_ERROR(Write(std::move(record)));
  NotifyChange();
  return absl::OkStatus();
}

absl::Status Scheduler::MarkCheckpoint(const v1::CheckpointRequest& request) {
  base::MutexLock lock(mu_);
  INGOT_RETURN_IF_ERROR(Prepare());
  INGOT_RETURN_IF_ERROR(CheckCheckpoint(request.step()));
  if (checkpoint_.has_value() && checkpoint_->step() == request.step() &&
      checkpoint_->weights_checksum() == request.weights_checksum()) {
    return absl::OkStatus();
  }
  v1::JournalRecord record;
  record.mutable_checkpoint()->set_step(request.step());
  record.mutable_checkpoint()->set_weights_checksum(request.weights_checksum());
  return Write(std::move(record));
}

// ---- Evaluation, status --------------------------------------------------------------------------------------------

absl::StatusOr<v1::StartEvalResponse> Scheduler::StartEval(const v1::StartEvalRequest& request) {
  {
    base::MutexLock lock(mu_);
    INGOT_RETURN_IF_ERROR(Prepare());
    INGOT_RETURN_IF_ERROR(evals_.Validate(request));
  }
  v1::StartEvalResponse groups = EvalBoard::Groups(request);
  INGOT_ASSIGN_OR_RETURN(const auto used, UsedEvalAttempts(groups.first_group(), groups.last_group()));
  base::MutexLock lock(mu_);
  INGOT_RETURN_IF_ERROR(evals_.Start(request, used));
  AdvanceGroups();
  return groups;
}

absl::StatusOr<v1::EvalStatusResponse> Scheduler::EvalStatus(int64_t version) {
  base::MutexLock lock(mu_);
  INGOT_RETURN_IF_ERROR(Prepare());
  INGOT_ASSIGN_OR_RETURN(v1::EvalStatusResponse status, evals_.Status(version));
  if (!status.done()) INGOT_RETURN_IF_ERROR(halt_.CheckUnstarted(status.failed() == status.total()));
  return status;
}

absl::StatusOr<v1::SchedulerStatusResponse> Scheduler::Status() {
  base::MutexLock lock(mu_);
  v1::SchedulerStatusResponse status;
  *status.mutable_stats() = Stats(steps_.size() > 1 ? steps_[steps_.size() - 2] : steps_.back());
  status.set_next_step(policy_.next_step());
  status.set_finished(AllBatchesFed());
  return status;
}

absl::Status Scheduler::Tick() {
  {
    base::MutexLock lock(mu_);
    INGOT_RETURN_IF_ERROR(Prepare());
  }
  return Trim();
}

int64_t Scheduler::TrimEnd() const {
  if (options_.keep_steps == 0 || kept_checkpoints_.empty()) return 0;
  const int64_t below = std::min(*kept_checkpoints_.begin(), checkpoint_->step() - options_.keep_steps);
  return below <= 0 ? 0 : steps_[static_cast<size_t>(below - 1)].journal_index + 1;
}

absl::Status Scheduler::Trim() {
  // After a restart, one call skips all records whose trees are already deleted.
  for (int64_t deleted = 0; deleted == 0;) {
    v1::ReadJournalRequest read;
    {
      base::MutexLock lock(mu_);
      const int64_t records = TrimEnd() - trimmed_;
      if (records <= 0 || shut_down_) return absl::OkStatus();
      read.set_from_index(trimmed_);
      read.set_limit(static_cast<int32_t>(std::min(records, kTrimRecords)));
    }
    INGOT_ASSIGN_OR_RETURN(const v1::ReadJournalResponse page, pool_.ReadJournal(read));
    if (page.records().empty()) return absl::DataLossError("the journal ends before its batches do");
    v1::TrimRequest trim;
    for (const v1::JournalRecord& record : page.records()) {
      for (const int64_t group : record.batch().group_ids()) trim.add_group_ids(group);
      if (record.has_closed()) trim.add_group_ids(record.closed().group_id());
    }
    if (!trim.group_ids().empty()) {
      const absl::StatusOr<v1::TrimResponse> trimmed = pool_.Trim(trim);
      if (!trimmed.ok()) return base::Annotate(trimmed.status(), "deleting old trees (scheduler.keep_steps)");
      deleted = trimmed->episodes_deleted();
    }
    base::MutexLock lock(mu_);
    trimmed_ += page.records_size();
  }
  return absl::OkStatus();
}

void Scheduler::Shutdown() {
  base::MutexLock lock(mu_);
  shut_down_ = true;
  changed_.SignalAll();
}

}  // namespace ingot::scheduler
