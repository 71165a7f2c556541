#include "view/runs/journal.h"

#include <algorithm>

namespace ingot::view {

std::string NameOf(GroupState state) {
  switch (state) {
    case GroupState::kOpen:
      return "open";
    case GroupState::kFinished:
      return "finished";
    case GroupState::kTrained:
      return "trained";
    case GroupState::kDropped:
      return "dropped";
    case GroupState::kFailed:
      return "failed";
  }
  return "unknown";
}

absl::Status Journal::Refresh(datapool::Client& pool) {
  base::MutexLock lock(mu_);
  while (true) {
    const int64_t known = next_index_;
    v1::ReadJournalRequest request;
    // Reads the newest known record again. If it is missing or different, this is another journal.
    request.set_from_index(std::max<int64_t>(known - 1, 0));
    INGOT_ASSIGN_OR_RETURN(const v1::ReadJournalResponse page, pool.ReadJournal(request));
    if (known > 0 && (page.records().empty() || page.records(0).unix_ns() != newest_ns_)) {
      StartAnew();
      continue;
    }
    for (const v1::JournalRecord& record : page.records()) {
      if (record.index() >= known) Apply(record);
    }
    if (next_index_ == known || next_index_ >= page.end_index()) break;
  }
  for (auto at = groups_.lower_bound(head_); at != groups_.end(); ++at) {
    head_ = at->first;
    if (at->second.state == GroupState::kOpen || at->second.state == GroupState::kFinished) return absl::OkStatus();
    ++head_;
  }
  return absl::OkStatus();
}

void Journal::StartAnew() {
  next_index_ = first_ns_ = newest_ns_ = head_ = 0;
  live_version_ = -1;
  groups_.clear();
  batches_.clear();
  ++generation_;
}

void Journal::End(int64_t group, GroupState state, int64_t unix_ns) {
  const auto found = groups_.find(group);
  if (found == groups_.end()) return;
  found->second.state = state;
  found->second.ended_ns = unix_ns;
}

void Journal::Apply(const v1::JournalRecord& record) {
  next_index_ = record.index() + 1;
  if (first_ns_ == 0) first_ns_ = record.unix_ns();
  const int64_t now = newest_ns_ = record.unix_ns();
  switch (record.record_case()) {
    case v1::JournalRecord::kAdmitted: {
      const v1::GroupAdmitted& admitted = record.admitted();
      JournalGroup& group = groups_[admitted.group_id()];
      group.group_id = admitted.group_id();
      group.task_id = admitted.task().task_id();
      group.domain = admitted.task().domain();
      group.group_size = admitted.group_size();
      group.admitted_version = admitted.admitted_version();
      group.admitted_ns = now;
      break;
    }
    case v1::JournalRecord::kRewarded: {
      const auto found = groups_.find(record.rewarded().group_id());
      if (found == groups_.end()) break;
      found->second.rewarded_ns = now;
      found->second.returns.assign(record.rewarded().returns().begin(), record.rewarded().returns().end());
      if (found->second.state == GroupState::kOpen) found->second.state = GroupState::kFinished;
      break;
    }
    case v1::JournalRecord::kClosed: {
      const v1::GroupClosed& closed = record.closed();
      End(closed.group_id(), closed.outcome() == v1::GROUP_DROPPED ? GroupState::kDropped : GroupState::kFailed, now);
      if (const auto found = groups_.find(closed.group_id()); found != groups_.end()) {
        found->second.reason = closed.reason();
        if (!closed.returns().empty()) found->second.returns.assign(closed.returns().begin(), closed.returns().end());
      }
      break;
    }
    case v1::JournalRecord::kBatch: {
      JournalBatch& batch = batches_[record.batch().step()];
      batch = {record.batch().step(), now, 0, {record.batch().group_ids().begin(), record.batch().group_ids().end()}};
      for (const int64_t group : batch.groups) {
        End(group, GroupState::kTrained, now);
        if (const auto found = groups_.find(group); found != groups_.end()) found->second.step = batch.step;
      }
      break;
    }
    case v1::JournalRecord::kLive: {
      live_version_ = record.live().version();
      if (const auto found = batches_.find(live_version_ - 1); found != batches_.end()) found->second.live_ns = now;
      break;
    }
    default:
      break;
  }
}

std::optional<JournalGroup> Journal::Group(int64_t id) const {
  base::MutexLock lock(mu_);
  const auto found = groups_.find(id);
  return found == groups_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<JournalBatch> Journal::Batch(int64_t step) const {
  base::MutexLock lock(mu_);
  const auto found = batches_.find(step);
  return found == batches_.end() ? std::nullopt : std::optional(found->second);
}

std::vector<JournalGroup> Journal::FromHead() const {
  base::MutexLock lock(mu_);
  std::vector<JournalGroup> groups;
  for (auto at = groups_.lower_bound(head_); at != groups_.end(); ++at) groups.push_back(at->second);
  return groups;
}

std::vector<int64_t> Journal::Unreleased() const {
  base::MutexLock lock(mu_);
  std::vector<int64_t> held;
  for (auto at = batches_.lower_bound(std::max<int64_t>(live_version_, 0)); at != batches_.end(); ++at) {
    held.insert(held.end(), at->second.groups.begin(), at->second.groups.end());
  }
  return held;
}

int64_t Journal::live_version() const {
  base::MutexLock lock(mu_);
  return live_version_;
}

int64_t Journal::batches() const {
  base::MutexLock lock(mu_);
  return std::ssize(batches_);
}

int64_t Journal::next_group() const {
  base::MutexLock lock(mu_);
  return groups_.empty() ? 0 : groups_.rbegin()->first + 1;
}

int64_t Journal::Count(GroupState state) const {
  base::MutexLock lock(mu_);
  return std::count_if(groups_.begin(), groups_.end(), [&](const auto& group) { return group.second.state == state; });
}

std::vector<int64_t> Journal::InState(GroupState state, size_t newest) const {
  base::MutexLock lock(mu_);
  std::vector<int64_t> ids;
  for (auto at = groups_.rbegin(); at != groups_.rend() && ids.size() < newest; ++at) {
    if (at->second.state == state) ids.push_back(at->first);
  }
  std::reverse(ids.begin(), ids.end());
  return ids;
}

int64_t Journal::generation() const {
  base::MutexLock lock(mu_);
  return generation_;
}

double Journal::started_s() const {
  base::MutexLock lock(mu_);
  return static_cast<double>(first_ns_) * 1e-9;
}

}  // namespace ingot::view
