// The groups that are admitted and not in a batch: which samples wait for an agent, run, or are done. Knows nothing of
// windows or journals; Scheduler moves a group on when it is settled here.
//
//   Add --> samples handed out, ended, retried --> settled: complete or failed --> MarkFinished --> Remove (batched)
//                                                               `--> Remove (dropped, failed)
//
// Not thread safe. O(log n) per call in the number of groups, plus the group's size.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "proto/scheduler.pb.h"
#include "scheduler/options.h"
#include "scheduler/sample.h"

namespace ingot::scheduler {

struct RewardSum {
  double sum = 0;
  int64_t episodes = 0;
};

// A group that is about to leave `open`.
struct SettledGroup {
  int64_t group_id = 0;
  std::string failure;         // why it failed; empty: all its samples are done
  bool zero_variance = false;  // more than one sample, all rewards equal (to 1e-9)
};

class TrainGroups {
 public:
  explicit TrainGroups(const SchedulerOptions& options) : options_(options) {}

  void Add(const v1::GroupAdmitted& admitted);
  // Forgets the group; its running episodes count no longer. Unknown ids are fine.
  void Remove(int64_t group_id);
  // The settled group was not dropped: kept for its rewards until Remove.
  void MarkFinished(int64_t group_id);

  // A sample of the oldest group without a name that has one waiting. Groups admitted under a version above
  // `live_version` are passed over: after a resume they wait until the run has come back to it, or their tokens would
  // be older than the bound.
  std::optional<v1::Ticket> NextTicket(int64_t live_version, std::chrono::nanoseconds now);
  // A sample of that group, with the same condition; nullopt: none waits.
  std::optional<v1::Ticket> TicketOf(int64_t group_id, int64_t live_version, std::chrono::nanoseconds now);

  // OK if the group or attempt is over: a late end changes nothing. REQUIRES: the group was admitted once.
  absl::Status Ended(const v1::EpisodeEndedRequest& request);
  // Those of groups that were admitted under `admitted_from` or later.
  std::vector<v1::EpisodeRef> Running(int64_t admitted_from = 0) const;
  // The attempt is not to be trained, however it ends: its sample waits again. Nothing if it is over, or its group is
  // gone.
  void Fence(const v1::EpisodeRef& ref);
  // Fails every group whose deadline has passed.
  void Expire(std::chrono::nanoseconds now);
  // After a restart: Restore for all that the pool holds of these groups, attempts ascending, then FinishRestore.
  void Restore(const v1::Episode& episode);
  void FinishRestore();

  // The oldest group to settle; stays the answer until MarkFinished or Remove.
  std::optional<SettledGroup> NextToSettle() const;

  // REQUIRES: contains(group_id).
  const v1::Task& task(int64_t group_id) const { return groups_.at(group_id).task; }
  bool contains(int64_t group_id) const { return groups_.contains(group_id); }
  RewardSum Rewards(int64_t group_id) const;  // over its done samples
  int64_t running() const { return running_; }

 private:
  struct Group {
    std::string name;  // empty: anybody may run its samples
    v1::Task task;
    int64_t admitted_version = 0;
    std::vector<Sample> samples;
    std::chrono::nanoseconds deadline{0};  // 0: nothing was handed out yet
    std::string failure;
  };
  // Brings the indices in line with the group's samples.
  void Update(int64_t group_id, Group& group);
  void Settle(int64_t group_id, Group& group);

  const SchedulerOptions options_;
  std::map<int64_t, Group> groups_;
  std::set<int64_t> waiting_;  // unsettled groups with a waiting sample
  std::set<std::pair<std::chrono::nanoseconds, int64_t>> deadlines_;
  std::set<int64_t> to_settle_;
  int64_t running_ = 0;
};

}  // namespace ingot::scheduler
