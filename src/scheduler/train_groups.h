// The samples of the groups that are admitted and in no batch: each waits for an agent, runs, or is done. Knows neither
// window nor journal.
//
//   Add --> samples: handed out, ended, tried again --> the group ends: all samples are done, or it failed
//
//   ended --> Scheduler decides the outcome --+--> rewarded: MarkRewarded --> in a batch: Remove
//             (asks the reward stage)         `--> dropped or failed: Remove
//
// A group's time is group_deadline_seconds from its first ticket on; past it the group fails. The time runs while one
// of the group's samples runs or may be handed out. It stands still while evaluations go first: they take every opening
// that names no group. It begins anew with the next ticket if the run goes back below the version under which the group
// was admitted.
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

// Rewards of some episodes.
struct RewardSum {
  double sum = 0;
  int64_t episodes = 0;
};

// A group that has ended and has no outcome yet.
struct EndedGroup {
  int64_t group_id = 0;
  int64_t admitted_version = 0;
  std::string failure;          // why it failed; empty = all its samples are done
  std::vector<double> returns;  // as reported, by sample index; empty = it failed
};

class TrainGroups {
 public:
  explicit TrainGroups(const SchedulerOptions& options) : options_(options) {}

  void Add(const v1::GroupAdmitted& admitted);
  // Forgets the group: its running episodes count no longer. An unknown id changes nothing.
  void Remove(int64_t group_id);
  // The group has its reward: it ends, if it has not, and waits for its batch. `returns`: of its judged episodes; they
  // stay until Remove.
  void MarkRewarded(int64_t group_id, RewardSum returns);

  // Sets the time, the live version and whether evaluations run, which go first. Fails every group whose time is over.
  // The caller advances before any other call, and again when one of the three changes.
  void Advance(std::chrono::nanoseconds now, int64_t live_version, bool evaluating);

  // A waiting sample of the oldest unnamed group that has one; nullopt = none waits. Passes over groups that were
  // admitted under a version above the live one. After a resume such a group waits for its version, or its tokens would
  // be older than the window's bound.
  std::optional<v1::Ticket> NextTicket();
  // A waiting sample of this group, under the same condition on its version; nullopt = none waits.
  std::optional<v1::Ticket> TicketOf(int64_t group_id);

  // An episode ended. A late end, of a group or attempt that is over, changes nothing and is OK. INVALID_ARGUMENT: no
  // such sample or attempt, or no end. REQUIRES: the group was admitted once.
  absl::Status EndEpisode(const v1::EpisodeEndedRequest& request);
  // The running attempts of groups that were admitted under version `admitted_from` or a later one.
  std::vector<v1::EpisodeRef> Running(int64_t admitted_from = 0) const;
  // Fences the attempt: its end counts for nothing, and its sample waits again. Changes nothing if the attempt is over
  // or its group is gone.
  void Fence(const v1::EpisodeRef& ref);
  // After a restart: Restore takes every episode that the pool holds of these groups, attempts ascending; FinishRestore
  // ends it. The time of groups with a running sample begins anew. REQUIRES: Advance was called.
  void Restore(const v1::Episode& episode);
  void FinishRestore();

  // The ended groups without an outcome, by id.
  std::vector<EndedGroup> Ended() const;

  // REQUIRES: contains(group_id).
  const v1::Task& task(int64_t group_id) const { return groups_.at(group_id).task; }
  bool contains(int64_t group_id) const { return groups_.contains(group_id); }
  // Over its judged episodes, once it is rewarded; otherwise over its done samples.
  RewardSum Rewards(int64_t group_id) const;
  int64_t running() const { return running_; }

 private:
  struct Group {
    std::string name;  // AdmitRequest.group; empty = any agent may run its samples
    v1::Task task;
    int64_t admitted_version = 0;
    std::vector<Sample> samples;
    // The group's time: it ends at `deadline` while it runs; `left` remains while it stands still. Both nullopt = no
    // ticket was handed out since the time began.
    std::optional<std::chrono::nanoseconds> deadline, left;
    std::string failure;                // empty = it has not failed
    std::optional<RewardSum> rewarded;  // MarkRewarded
  };
  // Brings the indices in line with the group's samples.
  void Update(int64_t group_id, Group& group);
  // Takes an ended group out of every index but ended_. Its running attempts count no longer.
  void MarkEnded(int64_t group_id, Group& group);
  // True if a sample runs or could be handed out.
  bool MayRun(const Group& group) const;
  void SetDeadline(int64_t group_id, Group& group, std::optional<std::chrono::nanoseconds> deadline);
  std::chrono::nanoseconds FullTime() const {
    return std::chrono::nanoseconds(static_cast<int64_t>(options_.group_deadline_seconds * 1e9));
  }
  // Stops or starts the group's time, as MayRun says.
  void UpdateTime(int64_t group_id, Group& group);
  // Fails the groups whose deadline has passed.
  void Expire();

  const SchedulerOptions options_;
  std::chrono::nanoseconds now_{0};
  int64_t live_version_ = 0;
  bool evaluating_ = false;
  std::map<int64_t, Group> groups_;
  std::set<int64_t> waiting_;  // groups that have not ended and have a waiting sample
  std::set<std::pair<std::chrono::nanoseconds, int64_t>> deadlines_;
  std::set<int64_t> ended_;  // groups without an outcome
  int64_t running_ = 0;      // attempts
};

}  // namespace ingot::scheduler
