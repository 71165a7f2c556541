// The effects of the journal's records, live and in the replay at the next start.
#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

#include "base/log.h"
#include "scheduler/scheduler.h"

namespace ingot::scheduler {

absl::Status Scheduler::Write(v1::JournalRecord record) {
  INGOT_ASSIGN_OR_RETURN(const v1::JournalRecord written, journal_.Append(std::move(record)));
  return Apply(written);
}

absl::Status Scheduler::Apply(const v1::JournalRecord& record) {
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
      return ApplyCheckpoint(record.checkpoint());
    case v1::JournalRecord::kEval:
      evals_.RecordResult(record.eval());
      AdvanceGroups();
      return absl::OkStatus();
    case v1::JournalRecord::RECORD_NOT_SET:
      break;
  }
  return absl::DataLossError("a journal record of a kind that this version does not know");
}

absl::Status Scheduler::ApplyBegun(const v1::JournalBegun& begun) {
  INGOT_RETURN_IF_ERROR(policy_.BeginAt(begun.step(), begun.group()));
  steps_.resize(static_cast<size_t>(begun.step()) + 1);
  return absl::OkStatus();
}

absl::Status Scheduler::ApplyAdmitted(const v1::GroupAdmitted& admitted) {
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
  if (!admitted.name().empty()) named_[admitted.name()] = admitted.group_id();
  metrics_.CountGroup("admitted");
  return absl::OkStatus();
}

absl::Status Scheduler::ApplyRewarded(const v1::GroupRewarded& rewarded) {
  INGOT_RETURN_IF_ERROR(policy_.FinishGroup(rewarded.group_id()));
  RewardSum returns;
  for (const double value : rewarded.returns()) {
    returns.sum += value;
    ++returns.episodes;
  }
  if (rewarded.has_success()) sampler_.Ended(groups_.task(rewarded.group_id()).task_id(), rewarded.success());
  groups_.MarkRewarded(rewarded.group_id(), returns);
  grades_.Forget(rewarded.group_id());
  halt_.GroupRewarded();
  return absl::OkStatus();
}

absl::Status Scheduler::ApplyClosed(const v1::GroupClosed& closed) {
  INGOT_RETURN_IF_ERROR(policy_.CloseGroup(closed.group_id()));
  if (closed.outcome() == v1::GROUP_DROPPED) {
    const std::span<const double> returns(closed.returns().data(), static_cast<size_t>(closed.returns_size()));
    steps_.back().rewards.sum += std::accumulate(returns.begin(), returns.end(), 0.0);
    steps_.back().rewards.episodes += std::ssize(returns);
    if (closed.has_success()) sampler_.Ended(groups_.task(closed.group_id()).task_id(), closed.success());
    ++steps_.back().dropped;
    ++dropped_;
    halt_.GroupDropped(closed.group_id(), returns);
    metrics_.CountGroup("dropped");
  } else {
    ++failed_;
    halt_.GroupFailed(closed.group_id(), closed.reason(), clock_.Now());
    metrics_.CountGroup("failed");
  }
  groups_.Remove(closed.group_id());
  grades_.Forget(closed.group_id());
  return absl::OkStatus();
}

absl::Status Scheduler::ApplyBatch(const v1::JournalRecord& record) {
  const v1::Batch& batch = record.batch();
  INGOT_RETURN_IF_ERROR(
      policy_.TakeBatch(batch.step(), {batch.group_ids().data(), static_cast<size_t>(batch.group_ids_size())}));
  Step& step = steps_.back();
  step.journal_index = record.index();
  step.groups = batch.group_ids_size();
  for (const int64_t group : batch.group_ids()) {
    const RewardSum rewards = groups_.Rewards(group);
    step.rewards.sum += rewards.sum;
    step.rewards.episodes += rewards.episodes;
    groups_.Remove(group);
  }
  steps_.emplace_back();
  metrics_.CountBatch(batch.group_ids_size());
  return absl::OkStatus();
}

absl::Status Scheduler::ApplyLive(const v1::VersionLive& live) {
  const bool goes_back = live.version() < policy_.live_version();
  INGOT_RETURN_IF_ERROR(policy_.SetLiveVersion(live.version()));
  if (goes_back) evals_.ForgetAfter(live.version());
  AdvanceGroups();
  for (const v1::EpisodeRef& ref : live.fenced()) groups_.Fence(ref);
  live_known_ = true;
  return absl::OkStatus();
}

absl::Status Scheduler::CheckCheckpoint(int64_t step) const {
  if (step >= 0 && step <= policy_.next_step()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "checkpoint ", step, " contains batches that were never fed: ", policy_.next_step(), " are journalled"));
}

absl::Status Scheduler::ApplyCheckpoint(const v1::CheckpointSaved& checkpoint) {
  INGOT_RETURN_IF_ERROR(CheckCheckpoint(checkpoint.step()));
  checkpoint_ = checkpoint;
  // A later checkpoint belongs to steps that will run again.
  kept_checkpoints_.erase(kept_checkpoints_.lower_bound(checkpoint.step()), kept_checkpoints_.end());
  kept_checkpoints_.insert(checkpoint.step());
  if (std::ssize(kept_checkpoints_) > options_.keep_checkpoints) kept_checkpoints_.erase(kept_checkpoints_.begin());
  return absl::OkStatus();
}

}  // namespace ingot::scheduler
