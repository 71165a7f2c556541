// The groups that are admitted and not in a batch: which samples wait for an agent, run, or are done. Knows nothing of
// windows or journals; Scheduler moves a group on when it is settled here.
//
//   Add --> samples handed out, ended, retried --> settled: complete or failed --> MarkFinished --> Remove (batched)
//                                                               `--> Remove (dropped, failed)
//
// A group's time, group_deadline_seconds from its first ticket on, runs while one of its samples does and while one may
// be handed out. It stands still while evaluations go first (they take all openings that name no group), and begins
// anew with the next ticket once the run has gone back behind the version that the group was admitted under.
//
// Not thread safe. O(log n) per call in the number of groups, plus the group's size; O(n) where Advance brings a
// change.
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

  // It is `now`, that version is live, and evaluations go first or do not. To be told before what follows is asked, and
  // when it changes. Fails every group whose time is over.
  void Advance(std::chrono::nanoseconds now, int64_t live_version, bool evaluating);

  // A sample of the oldest group without a name that has one waiting. Groups admitted under a version above the live
  // one are passed over: after a resume they wait until the run has come back to it, or their tokens would be older
  // than the bound.
  std::optional<v1::Ticket> NextTicket();
  // A sample of that group, with the same condition; nullopt: none waits.
  std::optional<v1::Ticket> TicketOf(int64_t group_id);

  // OK if the group or attempt is over: a late end changes nothing. REQUIRES: the group was admitted once.
  absl::Status Ended(const v1::EpisodeEndedRequest& request);
  // Those of groups that were admitted under `admitted_from` or later.
  std::vector<v1::EpisodeRef> Running(int64_t admitted_from = 0) const;
  // The attempt is not to be trained, however it ends: its sample waits again. Nothing if it is over, or its group is
  // gone.
  void Fence(const v1::EpisodeRef& ref);
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
    // Of its time: when it is over while it runs, and what is left while it stands still. Neither: nothing was handed
    // out since it began.
    std::optional<std::chrono::nanoseconds> deadline, left;
    std::string failure;
  };
  // Brings the indices in line with the group's samples.
  void Update(int64_t group_id, Group& group);
  void Settle(int64_t group_id, Group& group);
  bool MayRun(const Group& group) const;
  void SetDeadline(int64_t group_id, Group& group, std::optional<std::chrono::nanoseconds> deadline);
  // Stops its time, or lets it run on.
  void Time(int64_t group_id, Group& group);
  void Expire();

  const SchedulerOptions options_;
  std::chrono::nanoseconds now_{0};
  int64_t live_version_ = 0;
  bool evaluating_ = false;
  std::map<int64_t, Group> groups_;
  std::set<int64_t> waiting_;  // unsettled groups with a waiting sample
  std::set<std::pair<std::chrono::nanoseconds, int64_t>> deadlines_;
  std::set<int64_t> to_settle_;
  int64_t running_ = 0;
};

}  // namespace ingot::scheduler
