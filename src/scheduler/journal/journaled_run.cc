#include "scheduler/journal/journaled_run.h"

#include <span>
#include <utility>
#include <vector>

namespace ingot::scheduler {

JournaledRun::JournaledRun(const SchedulerOptions& options, TaskSampler sampler, HaltRules halt, JournalWriter journal,
                           const base::Clock& clock, SchedulerMetrics metrics)
    : options_(options),
      clock_(clock),
      journal_(std::move(journal)),
      metrics_(metrics),
      policy_(options.window()),
      groups_(options),
      sampler_(std::move(sampler)),
      evals_(options),
      checkpoints_(options.keep_checkpoints),
      halt_(std::move(halt)) {}

absl::Status JournaledRun::Write(v1::JournalRecord record) {
  INGOT_ASSIGN_OR_RETURN(const v1::JournalRecord written, journal_.Append(std::move(record)));
  return Apply(written);
}

absl::Status JournaledRun::CatchUp() {
  INGOT_ASSIGN_OR_RETURN(const auto found, journal_.Resolve());
  if (found.has_value()) INGOT_RETURN_IF_ERROR(Apply(*found));
  AdvanceGroups();
  evals_.Expire(clock_.Now());
  return absl::OkStatus();
}

void JournaledRun::EndReplay(int64_t records) {
  journal_.StartAt(records);
  halt_.RunStartedAgain();
}

absl::Status JournaledRun::ResumeAt(int64_t checkpoint) {
  if (checkpoint < 0 || checkpoint > policy_.next_step()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "checkpoint ", checkpoint, " contains batches that this journal does not have (it has ", policy_.next_step(),
        "): the pool belongs to another run, or lost its last records", datapool::PoolRecoveryHint()));
  }
  if (checkpoint < policy_.first_step()) return BeginsAfter(checkpoint);
  if (checkpoint < policy_.live_version()) INGOT_RETURN_IF_ERROR(policy_.SetLiveVersion(checkpoint));
  evals_.ForgetAfter(checkpoint);
  live_known_ = false;
  return absl::OkStatus();
}

absl::StatusOr<bool> JournaledRun::EndEpisode(const v1::ReportEpisodeEndRequest& ended) {
  switch (ended.purpose()) {
    case v1::PURPOSE_TRAIN:
      if (ended.ref().group_id() < 0 || ended.ref().group_id() >= policy_.next_group()) {
        return absl::InvalidArgumentError(absl::StrCat("group ", ended.ref().group_id(), " was never admitted"));
      }
      return groups_.EndEpisode(ended);
    case v1::PURPOSE_EVAL:
      return evals_.EndEpisode(ended);
    default:
      return absl::InvalidArgumentError("the scheduler handles only training and evaluation episodes");
  }
}

absl::Status JournaledRun::StartEval(const v1::StartEvalRequest& request, const EvalBoard::Attempts& used) {
  INGOT_RETURN_IF_ERROR(evals_.Start(request, used));
  AdvanceGroups();
  return absl::OkStatus();
}

absl::Status JournaledRun::BeginsAfter(int64_t step) const {
  return absl::FailedPreconditionError(absl::StrCat("the journal begins at step ", policy_.first_step(),
                                                    " and does not have batch ", step, datapool::PoolRecoveryHint()));
}

int64_t JournaledRun::TrimEnd() const {
  if (options_.keep_steps == 0) return 0;
  const int64_t below = checkpoints_.UnusedBelow(options_.keep_steps);
  return below == 0 ? 0 : steps_.at(below - 1).journal_index + 1;
}

// ---- The effects of the journal's records --------------------------------------------------------------------------

absl::Status JournaledRun::Apply(const v1::JournalRecord& record) {
  switch (record.record_case()) {
    case v1::JournalRecord::kAdmitted:
      return ApplyAdmitted(record.admitted());
    case v1::JournalRecord::kBegun:
      return ApplyBegun(record.begun());
    case v1::JournalRecord::kRewarded:
      return ApplyRewarded(record.rewarded());
    case v1::JournalRecord::kClosed:
      return ApplyClosed(record.closed());
    case v1::JournalRecord::kBatch:
      return ApplyBatch(record);
    case v1::JournalRecord::kLive:
      return ApplyLive(record.live());
    case v1::JournalRecord::kCheckpoint:
      INGOT_RETURN_IF_ERROR(CheckCheckpoint(record.checkpoint().step()));
      checkpoints_.Add(record.checkpoint());
      return absl::OkStatus();
    case v1::JournalRecord::kEval:
      evals_.RecordResult(record.eval());
      AdvanceGroups();
      return absl::OkStatus();
    case v1::JournalRecord::RECORD_NOT_SET:
      break;
  }
  return absl::DataLossError("the journal has a record whose kind this version of ingot does not know");
}

absl::Status JournaledRun::ApplyBegun(const v1::JournalBegun& begun) {
  INGOT_RETURN_IF_ERROR(policy_.BeginAt(begun.step(), begun.group()));
  steps_.BeginAt(begun.step());
  return absl::OkStatus();
}

absl::Status JournaledRun::ApplyAdmitted(const v1::GroupAdmitted& admitted) {
  if (admitted.group_size() > SchedulerOptions::kMaxGroupSize) {
    return absl::FailedPreconditionError(absl::StrCat("group ", admitted.group_id(), " has ", admitted.group_size(),
                                                      " samples, more than ", SchedulerOptions::kMaxGroupSize));
  }
  const int32_t width = admitted.branch_width();
  if (width != 0 && (width < 2 || admitted.group_size() % width != 0 || admitted.branch_at() < 1)) {
    return absl::FailedPreconditionError(absl::StrCat("group ", admitted.group_id(), " of ", admitted.group_size(),
                                                      " samples branches at ", admitted.branch_at(), " into ", width));
  }
  INGOT_RETURN_IF_ERROR(policy_.AdmitGroup(admitted.group_id()));
  groups_.Add(admitted);
  sampler_.Admitted(admitted.task().task_id());
  metrics_.CountGroup("admitted");
  return absl::OkStatus();
}

absl::Status JournaledRun::ApplyRewarded(const v1::GroupRewarded& rewarded) {
  INGOT_RETURN_IF_ERROR(policy_.FinishGroup(rewarded.group_id()));
  RewardSum returns;
  for (const double value : rewarded.returns()) {
    returns.sum += value;
    ++returns.episodes;
  }
  if (rewarded.has_success()) sampler_.Ended(groups_.task(rewarded.group_id()).task_id(), rewarded.success());
  groups_.MarkRewarded(rewarded.group_id(), returns);
  halt_.GroupRewarded();
  return absl::OkStatus();
}

absl::Status JournaledRun::ApplyClosed(const v1::GroupClosed& closed) {
  INGOT_RETURN_IF_ERROR(policy_.CloseGroup(closed.group_id()));
  if (closed.outcome() == v1::GROUP_DROPPED) {
    const std::span<const double> returns(closed.returns().data(), static_cast<size_t>(closed.returns_size()));
    steps_.AddDropped(returns);
    if (closed.has_success()) sampler_.Ended(groups_.task(closed.group_id()).task_id(), closed.success());
    halt_.GroupDropped(closed.group_id(), returns);
    metrics_.CountGroup("dropped");
  } else {
    steps_.AddFailed();
    halt_.GroupFailed(closed.group_id(), closed.reason(), clock_.Now());
    metrics_.CountGroup("failed");
  }
  groups_.Remove(closed.group_id());
  return absl::OkStatus();
}

absl::Status JournaledRun::ApplyBatch(const v1::JournalRecord& record) {
  const v1::Batch& batch = record.batch();
  INGOT_RETURN_IF_ERROR(
      policy_.TakeBatch(batch.step(), {batch.group_ids().data(), static_cast<size_t>(batch.group_ids_size())}));
  std::vector<RewardSum> rewards;
  for (const int64_t group : batch.group_ids()) {
    rewards.push_back(groups_.Rewards(group));
    groups_.Remove(group);
  }
  steps_.AddBatch(record.index(), rewards);
  metrics_.CountBatch(batch.group_ids_size());
  return absl::OkStatus();
}

absl::Status JournaledRun::ApplyLive(const v1::VersionLive& live) {
  const bool goes_back = live.version() < policy_.live_version();
  INGOT_RETURN_IF_ERROR(policy_.SetLiveVersion(live.version()));
  if (goes_back) evals_.ForgetAfter(live.version());
  AdvanceGroups();
  for (const v1::EpisodeRef& ref : live.fenced()) groups_.Fence(ref);
  live_known_ = true;
  return absl::OkStatus();
}

absl::Status JournaledRun::CheckCheckpoint(int64_t step) const {
  if (step >= 0 && step <= policy_.next_step()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("checkpoint ", step, " contains batches that were never given to the trainer: ", policy_.next_step(),
                   " are in the journal"));
}

}  // namespace ingot::scheduler
