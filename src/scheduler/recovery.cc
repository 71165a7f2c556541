// Recovery of a scheduler: the journal shows which groups are rewarded and consumed, the pool's episodes show which
// samples of the other groups are done.
#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "base/log.h"
#include "scheduler/scheduler.h"

namespace ingot::scheduler {
using datapool::EpisodePages;

absl::StatusOr<std::unique_ptr<Scheduler>> Scheduler::Recover(const SchedulerOptions& options,
                                                              std::vector<v1::Task> tasks, datapool::Client& pool,
                                                              const base::Clock& clock,
                                                              std::optional<ResumePoint> resume, base::Metrics* metrics,
                                                              const Grading& grading, int64_t fencing_token) {
  INGOT_RETURN_IF_ERROR(options.Validate());
  if (tasks.empty() && options.total_steps > 0) {
    return absl::InvalidArgumentError("the scheduler has no tasks to train on: name a task file with at least one");
  }
  INGOT_ASSIGN_OR_RETURN(TaskSampler sampler, TaskSampler::Make(std::move(tasks), options.sampling, options.seed));
  std::unique_ptr<Scheduler> scheduler(
      new Scheduler(options, std::move(sampler), pool, clock, metrics, grading, fencing_token));
  base::MutexLock lock(scheduler->mu_);
  INGOT_RETURN_IF_ERROR(base::Annotate(scheduler->ReadJournal(resume), "recovering the scheduler"));
  INGOT_RETURN_IF_ERROR(scheduler->DecideOutcomes());
  scheduler->recovered_ = true;
  scheduler->NotifyChange();
  return scheduler;
}

absl::Status Scheduler::ReadJournal(std::optional<ResumePoint> resume) {
  int64_t end = 0;
  for (datapool::JournalPages pages(pool_); !pages.done();) {
    INGOT_ASSIGN_OR_RETURN(const v1::ReadJournalResponse page, pages.Next());
    for (const v1::JournalRecord& record : page.records()) {
      if (record.index() != end) {
        return absl::DataLossError(absl::StrCat("journal record ", end, " is missing (", record.index(), " follows)"));
      }
      ++end;
      if (const absl::Status status = Apply(record); !status.ok()) {
        return absl::DataLossError(absl::StrCat("journal record ", record.index(), ": ", status.message()));
      }
    }
    if (pages.done() && page.end_index() != end) {
      return absl::DataLossError(absl::StrCat("the journal has ", end, " records, and ", page.end_index(),
                                              " were written", datapool::WayOn()));
    }
  }
  journal_.StartAt(end);
  halt_.RunStartedAgain();
  if (resume.has_value()) {
    if (end == 0 && resume->step > 0) INGOT_RETURN_IF_ERROR(BeginJournal(*resume));
    INGOT_RETURN_IF_ERROR(ResumeAt(resume->step));
  }
  if (end > 0) {
    INGOT_LOG(info, "journal: {} records, {} groups admitted, {} batches, version {} live", end, policy_.next_group(),
              policy_.next_step(), policy_.live_version());
  }
  return ReadEpisodes(/*end_open=*/resume.has_value());
}

absl::Status Scheduler::BeginJournal(const ResumePoint& resume) {
  v1::JournalRecord record;
  record.mutable_begun()->set_step(resume.step);
  // Every earlier step took its groups, so ids do not clash, and tasks continue after the last step's tasks.
  record.mutable_begun()->set_group(std::max(resume.next_group, resume.step * options_.groups_per_step));
  INGOT_LOG(
      warn,
      "the pool is empty: the run continues from checkpoint {} with an empty journal, at group {}. Groups that were "
      "admitted and not trained are lost, and so are all earlier episodes",
      resume.step, record.begun().group());
  return Write(std::move(record));
}

absl::Status Scheduler::BeginsAfter(int64_t step) const {
  return absl::FailedPreconditionError(absl::StrCat("the journal begins at step ", policy_.first_step(),
                                                    " and does not hold batch ", step, datapool::WayOn()));
}

absl::Status Scheduler::EndLeft(v1::Episode& episode) {
  v1::StoreEndRequest end;  // without a reward: posted values stay
  end.set_episode_id(episode.episode_id());
  end.set_state(episode.has_reward() ? v1::EPISODE_FINISHED : v1::EPISODE_FENCED);
  end.set_detail(absl::StrCat("the run was started again", episode.has_reward() ? "; its reward had been posted" : ""));
  end.set_ended_unix_ns(clock_.UnixNanos());
  end.set_gateway_token(episode.gateway_token());
  const absl::Status ended = pool_.StoreEnd(end);
  if (absl::IsFailedPrecondition(ended) || absl::IsAlreadyExists(ended) || absl::IsAborted(ended)) {
    v1::GetEpisodeRequest get;  // the new gateway was faster
    get.set_episode_id(episode.episode_id());
    INGOT_ASSIGN_OR_RETURN(v1::EpisodeTree tree, pool_.GetEpisode(get));
    episode = std::move(*tree.mutable_episode());
    return absl::OkStatus();
  }
  episode.set_state(end.state());
  return base::Annotate(ended, "ending an episode that the run left open");
}

absl::Status Scheduler::ResumeAt(int64_t checkpoint) {
  if (checkpoint < 0 || checkpoint > policy_.next_step()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "checkpoint ", checkpoint, " contains batches that this journal does not hold (it holds ", policy_.next_step(),
        "): the pool belongs to another run, or lost its last records", datapool::WayOn()));
  }
  if (checkpoint < policy_.first_step()) return BeginsAfter(checkpoint);
  if (checkpoint < policy_.live_version()) INGOT_RETURN_IF_ERROR(policy_.SetLiveVersion(checkpoint));
  evals_.ForgetAfter(checkpoint);
  live_known_ = false;
  return absl::OkStatus();
}

absl::Status Scheduler::ReadEpisodes(bool end_open) {
  if (policy_.head() >= policy_.next_group()) return absl::OkStatus();
  AdvanceGroups();
  EpisodePages pages(pool_, v1::PURPOSE_TRAIN, policy_.head(), policy_.next_group() - 1);
  while (!pages.done()) {
    INGOT_ASSIGN_OR_RETURN(v1::ListEpisodesResponse page, pages.Next());
    for (v1::Episode& episode : *page.mutable_episodes()) {
      if (!groups_.contains(episode.ref().group_id())) continue;
      if (end_open && episode.state() == v1::EPISODE_OPEN) INGOT_RETURN_IF_ERROR(EndLeft(episode));
      groups_.Restore(episode);
    }
  }
  groups_.FinishRestore();
  return absl::OkStatus();
}

absl::StatusOr<EvalBoard::Attempts> Scheduler::UsedEvalAttempts(int64_t first_group, int64_t last_group) {
  EvalBoard::Attempts used;
  EpisodePages pages(pool_, v1::PURPOSE_EVAL, first_group, last_group);
  while (!pages.done()) {
    INGOT_ASSIGN_OR_RETURN(const v1::ListEpisodesResponse page, pages.Next());
    for (const v1::Episode& episode : page.episodes()) {
      int32_t& attempt = used[{episode.ref().group_id(), episode.ref().sample_index()}];
      attempt = std::max(attempt, episode.ref().attempt());
    }
  }
  return used;
}

absl::StatusOr<v1::ReconcileResponse> Scheduler::Reconcile(const v1::ReconcileRequest& request) {
  base::MutexLock lock(mu_);
  INGOT_RETURN_IF_ERROR(Prepare());
  v1::ReconcileResponse found;
  INGOT_RETURN_IF_ERROR(Reconcile(request.gateway(), v1::PURPOSE_TRAIN, groups_.Running(), found));
  INGOT_RETURN_IF_ERROR(Reconcile(request.gateway(), v1::PURPOSE_EVAL, evals_.Running(), found));
  if (found.ended() + found.lost() > 0) {
    INGOT_LOG(info,
              "{} was started or replaced: {} episodes continue, {} had ended, {} are lost and will be tried again",
              request.gateway(), found.running(), found.ended(), found.lost());
  }
  INGOT_RETURN_IF_ERROR(DecideOutcomes());
  NotifyChange();
  return found;
}

absl::Status Scheduler::Reconcile(const std::string& gateway, v1::EpisodePurpose purpose,
                                  const std::vector<v1::EpisodeRef>& running, v1::ReconcileResponse& found) {
  if (running.empty()) return absl::OkStatus();
  const auto [first, last] = std::minmax_element(
      running.begin(), running.end(), [](const auto& a, const auto& b) { return a.group_id() < b.group_id(); });
  std::map<AttemptPlace, v1::Episode> stored;
  for (EpisodePages pages(pool_, purpose, first->group_id(), last->group_id()); !pages.done();) {
    INGOT_ASSIGN_OR_RETURN(v1::ListEpisodesResponse page, pages.Next());
    for (v1::Episode& episode : *page.mutable_episodes()) stored[PlaceOf(purpose, episode.ref())] = std::move(episode);
  }
  for (const v1::EpisodeRef& ref : running) {
    const auto it = stored.find(PlaceOf(purpose, ref));
    const auto handed = handed_.find(PlaceOf(purpose, ref));
    // Another gateway is about to store it.
    if (it == stored.end() && handed != handed_.end() && handed->second != gateway) continue;
    if (it != stored.end() && it->second.state() == v1::EPISODE_OPEN) {
      found.set_running(found.running() + 1);
      continue;
    }
    v1::ReportEpisodeEndRequest ended;
    *ended.mutable_ref() = ref;
    ended.set_purpose(purpose);
    if (it == stored.end()) {
      ended.set_state(v1::EPISODE_FENCED);
      ended.set_detail("its gateway was gone before it was stored");
      found.set_lost(found.lost() + 1);
    } else {
      ended.set_state(it->second.state());
      ended.set_reward(tree::ReturnOf(it->second));
      ended.set_detail(it->second.detail());
      ended.set_cause(it->second.cause());
      ended.set_episode_id(it->second.episode_id());
      ended.set_runner(it->second.runner());
      ended.set_scaffold(it->second.scaffold());
      found.set_ended(found.ended() + 1);
    }
    const auto changed = purpose == v1::PURPOSE_EVAL ? evals_.EndEpisode(ended) : groups_.EndEpisode(ended);
    INGOT_RETURN_IF_ERROR(changed.status());
  }
  return absl::OkStatus();
}

}  // namespace ingot::scheduler
