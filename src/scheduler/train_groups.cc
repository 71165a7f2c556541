#include "scheduler/train_groups.h"

#include <algorithm>

#include "tree/episode_return.h"

namespace ingot::scheduler {
namespace {

constexpr char kSnapshotLost[] = "snapshot";  // ReportEpisodeEndRequest.cause

bool HasWaiting(const std::vector<Sample>& samples) {
  return std::any_of(samples.begin(), samples.end(), [](const Sample& s) { return s.state == Sample::kWaiting; });
}

std::string GivenUp(const Sample& sample, const std::string& detail) {
  return absl::StrCat(sample.failures + sample.broken, " attempts at a sample failed",
                      sample.broken == 0 ? "" : absl::StrCat(" (", sample.broken, " through no fault of the agent)"),
                      detail.empty() ? "" : absl::StrCat("; the last: ", detail));
}

}  // namespace

void TrainGroups::Add(const v1::GroupAdmitted& admitted) {
  Group& group = groups_[admitted.group_id()];
  group.name = admitted.name();
  group.task = admitted.task();
  group.admitted_version = admitted.admitted_version();
  const auto leaves = static_cast<size_t>(std::max(1, admitted.group_size()));
  group.samples.resize(leaves);
  if (admitted.branch_width() > 0) {
    group.width = static_cast<size_t>(admitted.branch_width());
    group.fork_at = admitted.branch_at();
    for (Sample& leaf : group.samples) leaf.state = Sample::kBlocked;
    group.samples.resize(leaves + leaves / group.width);
    group.newest.resize(group.samples.size());
  }
  waiting_.insert(admitted.group_id());
  if (!admitted.name().empty()) named_[admitted.name()] = admitted.group_id();
}

size_t TrainGroups::Leaves(const Group& group) {
  return group.width == 0 ? group.samples.size() : group.samples.size() * group.width / (group.width + 1);
}

bool TrainGroups::MayTake(const Group& group, size_t sample, const Requester& requester) {
  if (group.width == 0) return true;
  if (IsTrunk(group, sample)) return !requester.runner.empty();
  const size_t trunk = TrunkOf(group, sample);
  const Attempt& ran = group.newest[trunk];
  if (group.samples[trunk].state != Sample::kForked) return true;
  return ran.runner == requester.runner && ran.scaffold == requester.scaffold;
}

void TrainGroups::FreeLeaves(Group& group, size_t trunk) {
  const bool forked = group.samples[trunk].state == Sample::kForked;
  const size_t first = FirstLeafOf(group, trunk);
  for (size_t leaf = first; leaf < first + group.width; ++leaf) {
    Sample& sample = group.samples[leaf];
    if (sample.state != Sample::kBlocked) continue;
    // A leaf with an attempt in the pool needs a newer attempt, because the newest attempts are trained.
    const bool stands = !forked && leaf == first && sample.attempt == 0;
    sample.state = stands ? Sample::kStoodFor : Sample::kWaiting;
  }
}

void TrainGroups::TryTrunkAgain(Group& group, size_t trunk) {
  const size_t first = FirstLeafOf(group, trunk);
  for (size_t leaf = first; leaf < first + group.width; ++leaf) {
    if (group.samples[leaf].state == Sample::kRunning) --running_;
    if (group.samples[leaf].state != Sample::kGivenUp) group.samples[leaf].Withdraw();
  }
  group.samples[trunk].Fail(LimitsOf(options_), /*of_infrastructure=*/true);
  if (group.samples[trunk].state == Sample::kGivenUp) {
    group.failure = GivenUp(group.samples[trunk], "the snapshot of a trunk was lost");
  }
}

void TrainGroups::RestoreLeaves(Group& group, size_t trunk) {
  const Sample::State state = group.samples[trunk].state;
  const bool ended = state == Sample::kForked || state == Sample::kDone;
  const std::string from = state == Sample::kForked ? group.newest[trunk].episode_id : "";
  const size_t first = FirstLeafOf(group, trunk);
  for (size_t leaf = first; leaf < first + group.width; ++leaf) {
    Sample& sample = group.samples[leaf];
    if (!ended || group.newest[leaf].trunk_id != from) sample.Withdraw();
  }
  if (ended) FreeLeaves(group, trunk);
}

void TrainGroups::Remove(int64_t group_id) {
  const auto it = groups_.find(group_id);
  if (it == groups_.end()) return;
  MarkEnded(group_id, it->second);
  ended_.erase(group_id);
  groups_.erase(it);
}

void TrainGroups::MarkRewarded(int64_t group_id, RewardSum returns) {
  Group& group = groups_.at(group_id);
  group.rewarded = returns;
  MarkEnded(group_id, group);
  ended_.erase(group_id);
}

void TrainGroups::MarkEnded(int64_t group_id, Group& group) {
  for (Sample& sample : group.samples) {
    if (sample.state != Sample::kRunning) continue;
    sample.state = Sample::kGivenUp;
    --running_;
  }
  waiting_.erase(group_id);
  SetDeadline(group_id, group, std::nullopt);
  group.left.reset();
  ended_.insert(group_id);
}

void TrainGroups::Update(int64_t group_id, Group& group) {
  const bool all_done = std::all_of(group.samples.begin(), group.samples.end(), [](const Sample& s) {
    return s.state == Sample::kDone || s.state == Sample::kForked || s.state == Sample::kStoodFor;
  });
  if (all_done || !group.failure.empty()) {
    MarkEnded(group_id, group);
  } else if (HasWaiting(group.samples)) {
    waiting_.insert(group_id);
  } else {
    waiting_.erase(group_id);
  }
  UpdateTime(group_id, group);
}

bool TrainGroups::MayRun(const Group& group) const {
  const bool runs = std::any_of(group.samples.begin(), group.samples.end(),
                                [](const Sample& s) { return s.state == Sample::kRunning; });
  return runs || (group.admitted_version <= live_version_ && !(evaluating_ && group.name.empty()));
}

void TrainGroups::SetDeadline(int64_t group_id, Group& group, std::optional<std::chrono::nanoseconds> deadline) {
  if (group.deadline.has_value()) deadlines_.erase({*group.deadline, group_id});
  group.deadline = deadline;
  if (deadline.has_value()) deadlines_.insert({*deadline, group_id});
}

void TrainGroups::UpdateTime(int64_t group_id, Group& group) {
  const bool may_run = MayRun(group);
  if (may_run && group.left.has_value()) {
    SetDeadline(group_id, group, now_ + *group.left);
    group.left.reset();
  } else if (!may_run && group.deadline.has_value()) {
    group.left = *group.deadline - now_;
    SetDeadline(group_id, group, std::nullopt);
  }
}

void TrainGroups::Advance(std::chrono::nanoseconds now, int64_t live_version, bool evaluating) {
  now_ = now;
  Expire();
  if (live_version == live_version_ && evaluating == evaluating_) return;
  const bool goes_back = live_version < live_version_;
  live_version_ = live_version;
  evaluating_ = evaluating;
  for (auto& [group_id, group] : groups_) {
    if (goes_back && group.admitted_version > live_version) {
      SetDeadline(group_id, group, std::nullopt);
      group.left.reset();
    }
    UpdateTime(group_id, group);
  }
}

std::optional<v1::Ticket> TrainGroups::NextTicket(const Requester& requester) {
  for (const int64_t group_id : waiting_) {
    if (!groups_.at(group_id).name.empty()) continue;
    if (auto ticket = TicketOf(group_id, requester)) return ticket;
  }
  return std::nullopt;
}

std::optional<v1::Ticket> TrainGroups::TicketOf(int64_t group_id, const Requester& requester) {
  const auto it = groups_.find(group_id);
  if (it == groups_.end() || !waiting_.contains(group_id) || it->second.admitted_version > live_version_) {
    return std::nullopt;
  }
  Group& group = it->second;
  size_t index = 0;
  while (index < group.samples.size() &&
         (group.samples[index].state != Sample::kWaiting || !MayTake(group, index, requester))) {
    ++index;
  }
  if (index == group.samples.size()) return std::nullopt;
  Sample& sample = group.samples[index];
  if (!group.deadline.has_value() && !group.left.has_value()) {
    group.left = FullTime();
  }
  v1::Ticket ticket;
  *ticket.mutable_ref() = sample.Ref(group_id, static_cast<int64_t>(index));
  ticket.set_purpose(v1::PURPOSE_TRAIN);
  *ticket.mutable_task() = group.task;
  ticket.set_pinned_version(-1);
  ticket.set_admitted_version(group.admitted_version);
  if (IsTrunk(group, index)) {
    ticket.set_fork_at(group.fork_at);
  } else if (group.width > 0) {
    const size_t trunk = TrunkOf(group, index);
    if (group.samples[trunk].state == Sample::kForked) ticket.set_trunk_id(group.newest[trunk].episode_id);
    group.newest[index].trunk_id = ticket.trunk_id();
  }
  sample.state = Sample::kRunning;
  ++running_;
  Update(group_id, group);
  return ticket;
}

absl::StatusOr<bool> TrainGroups::EndEpisode(const v1::ReportEpisodeEndRequest& request) {
  const int64_t group_id = request.ref().group_id();
  const auto it = groups_.find(group_id);
  if (it == groups_.end()) return false;
  Group& group = it->second;
  const int32_t index = request.ref().sample_index();
  if (index < 0 || index >= std::ssize(group.samples)) {
    return absl::InvalidArgumentError(
        absl::StrCat("group ", group_id, " has ", group.samples.size(), " samples: no sample ", index));
  }
  const auto place = static_cast<size_t>(index);
  const bool trunk = IsTrunk(group, place);
  if (request.state() == v1::EPISODE_FORKED && (!trunk || request.episode_id().empty() || request.runner().empty())) {
    return absl::InvalidArgumentError(absl::StrCat("group ", group_id, ", sample ", index,
                                                   " cannot end as FORKED: it is not a trunk of a named runner"));
  }
  if (!group.failure.empty() || group.rewarded.has_value() || ended_.contains(group_id)) return false;
  Sample& sample = group.samples[place];
  const Sample::State state = sample.state;
  const int32_t attempt = sample.attempt;
  INGOT_RETURN_IF_ERROR(sample.End(request, LimitsOf(options_)));
  // A repeated report. The group may already be finished and must not end again.
  if (sample.state == state && sample.attempt == attempt) return false;
  if (state == Sample::kRunning && sample.state != state) --running_;
  if (sample.state == Sample::kGivenUp) group.failure = GivenUp(sample, request.detail());
  if (trunk && (sample.state == Sample::kForked || sample.state == Sample::kDone)) {
    group.newest[place] = {
        .episode_id = request.episode_id(), .runner = request.runner(), .scaffold = request.scaffold(), .trunk_id = ""};
    FreeLeaves(group, place);
  }
  const bool lost = group.width > 0 && !trunk && request.state() == v1::EPISODE_INFRASTRUCTURE_FAILED &&
                    request.cause() == kSnapshotLost && !group.newest[place].trunk_id.empty();
  if (lost && sample.state == Sample::kWaiting) TryTrunkAgain(group, TrunkOf(group, place));
  Update(group_id, group);
  return true;
}

void TrainGroups::Fence(const v1::EpisodeRef& ref) {
  const auto it = groups_.find(ref.group_id());
  if (it == groups_.end() || ref.sample_index() < 0 || ref.sample_index() >= std::ssize(it->second.samples)) return;
  Sample& sample = it->second.samples[static_cast<size_t>(ref.sample_index())];
  const bool ran = sample.state == Sample::kRunning;
  if (!sample.Fence(ref.attempt())) return;
  if (ran) --running_;
  Update(ref.group_id(), it->second);
}

std::vector<v1::EpisodeRef> TrainGroups::Running(int64_t admitted_from) const {
  std::vector<v1::EpisodeRef> running;
  for (const auto& [group_id, group] : groups_) {
    if (group.admitted_version < admitted_from) continue;
    for (size_t i = 0; i < group.samples.size(); ++i) {
      if (group.samples[i].state != Sample::kRunning) continue;
      running.push_back(group.samples[i].Ref(group_id, static_cast<int64_t>(i)));
    }
  }
  return running;
}

void TrainGroups::Expire() {
  while (!deadlines_.empty() && deadlines_.begin()->first <= now_) {
    const int64_t group_id = deadlines_.begin()->second;
    Group& group = groups_.at(group_id);
    const auto done = std::count_if(group.samples.begin(), group.samples.end(),
                                    [](const Sample& s) { return s.state == Sample::kDone; });
    group.failure = absl::StrCat("deadline of ", options_.group_deadline_seconds, " s passed with ", done, " of ",
                                 group.samples.size(), " samples done");
    MarkEnded(group_id, group);
  }
}

void TrainGroups::Restore(const v1::Episode& episode) {
  const auto it = groups_.find(episode.ref().group_id());
  if (it == groups_.end() || it->second.rewarded.has_value()) return;
  Group& group = it->second;
  const int32_t index = episode.ref().sample_index();
  if (index < 0 || index >= std::ssize(group.samples)) return;
  group.samples[static_cast<size_t>(index)].Restore(episode, LimitsOf(options_));
  if (group.width > 0) {  // attempts ascend
    group.newest[static_cast<size_t>(index)] = {.episode_id = episode.episode_id(),
                                                .runner = episode.runner(),
                                                .scaffold = episode.scaffold(),
                                                .trunk_id = episode.fork().episode_id()};
  }
}

void TrainGroups::FinishRestore() {
  for (auto& [group_id, group] : groups_) {
    if (group.rewarded.has_value()) continue;
    for (size_t trunk = Leaves(group); trunk < group.samples.size(); ++trunk) RestoreLeaves(group, trunk);
    for (const Sample& sample : group.samples) {
      if (sample.state == Sample::kGivenUp) group.failure = GivenUp(sample, "");
      if (sample.state != Sample::kRunning) continue;
      ++running_;
      group.left = FullTime();
    }
    Update(group_id, group);
  }
}

std::optional<int64_t> TrainGroups::Named(const std::string& name) const {
  const auto it = named_.find(name);
  return it == named_.end() ? std::nullopt : std::optional(it->second);
}

std::vector<EndedGroup> TrainGroups::Ended() const {
  std::vector<EndedGroup> all;
  for (const int64_t group_id : ended_) {
    const Group& group = groups_.at(group_id);
    EndedGroup& ended = all.emplace_back();
    ended.group_id = group_id;
    ended.admitted_version = group.admitted_version;
    ended.failure = group.failure;
    if (!group.failure.empty()) continue;
    for (const Sample& sample : group.samples) {
      if (sample.state == Sample::kDone) ended.returns.push_back(sample.reward);
    }
  }
  return all;
}

RewardSum TrainGroups::Rewards(int64_t group_id) const {
  RewardSum rewards;
  const auto it = groups_.find(group_id);
  if (it == groups_.end()) return rewards;
  if (it->second.rewarded.has_value()) return *it->second.rewarded;
  for (const Sample& sample : it->second.samples) {
    if (sample.state != Sample::kDone) continue;
    rewards.sum += sample.reward;
    ++rewards.episodes;
  }
  return rewards;
}

}  // namespace ingot::scheduler
