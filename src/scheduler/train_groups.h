// Tracks the samples of admitted groups that are not yet in a batch. Each sample is waiting for an agent, running, or
// done. Independent of the window and the journal.
//
//   Add --> samples: handed out, ended, retried --> the group ends: all samples are done, or it failed
//
//   ended --> Scheduler decides the outcome --+--> rewarded: MarkRewarded --> in a batch: Remove
//             (with the reward stage)         `--> dropped or failed: Remove
//
// Branching (GroupAdmitted.branch_width). The samples of a branching group are the leaves of trunks. The trunks'
// indices follow the leaves':
//
//   group_size 4, width 2     leaf 0  leaf 1  leaf 2  leaf 3   trunk 4  trunk 5
//                                  of trunk 4       of trunk 5
//
//   trunk   waits --> runs --FORKED--> its leaves wait, for its recipe and the runner that has the snapshot
//                       |----FINISHED--> it replaces its first leaf; the other leaves start over, without a fork
//                       '----FAILED, ..--> retried; its leaves stay blocked
//
// The group ends when its leaves are done and its trunks are forked or done. A leaf that fails is forked again from the
// same snapshot. If its runner has lost the snapshot (cause "snapshot"), the trunk is retried, and its leaves' results
// no longer count. The pool's episodes record each trunk's state and runner, and each leaf's trunk. So a restored group
// continues where it stopped, without needing its own journal records.
//
// A group fails group_deadline_seconds after its first ticket. The clock runs while one of the group's samples is
// running or may be handed out. It stops while evaluations have priority, because they get every admission that does
// not name a group. If the run goes back to before the version under which the group was admitted, the clock restarts
// with the next ticket.
//
// Not thread safe. A call takes O(log n) time in the number of groups, plus the group's size. Advance takes O(n) if it
// changes anything.
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

// The rewards of some episodes.
struct RewardSum {
  double sum = 0;
  int64_t episodes = 0;
};

// A group that has ended but has no outcome yet.
struct EndedGroup {
  int64_t group_id = 0;
  int64_t admitted_version = 0;
  std::string failure;          // why it failed; empty = all of its samples are done
  std::vector<double> returns;  // the reported returns, by sample; empty = it failed
};

// The client that requests a sample.
struct Requester {
  std::string runner = {};    // AdmitRequest.runner
  std::string scaffold = {};  // AdmitRequest.scaffold
};

class TrainGroups {
 public:
  explicit TrainGroups(const SchedulerOptions& options) : options_(options) {}

  void Add(const v1::GroupAdmitted& admitted);
  // Forgets the group. Its running episodes no longer count. Ignores an unknown id.
  void Remove(int64_t group_id);
  // Records that the group has its reward. The group ends, if it has not already, and waits for its batch. `returns`
  // covers its judged episodes and is kept until Remove.
  void MarkRewarded(int64_t group_id, RewardSum returns);

  // Sets the time, the live version, and whether evaluations, which have priority, are running. Fails every group that
  // has run out of time. Must be called before any other method, and whenever one of these three changes.
  void Advance(std::chrono::nanoseconds now, int64_t live_version, bool evaluating);

  // Returns a waiting sample from the oldest unnamed group that has one, or nullopt if no sample is waiting. Skips
  // groups that were admitted under a version above the live version. After a resume, such a group waits for its
  // version, because otherwise its tokens would be older than the window allows. `requester` determines which trunks
  // and leaves are available.
  std::optional<v1::Ticket> NextTicket(const Requester& requester = {});
  // Same as NextTicket, but for this group.
  std::optional<v1::Ticket> TicketOf(int64_t group_id, const Requester& requester = {});

  // Records the end of an episode. Returns false if nothing changed because the report is a duplicate, or is late and
  // its group or attempt has ended. Returns INVALID_ARGUMENT if there is no such sample or attempt, or if the state is
  // not an end state. REQUIRES: the group was admitted at some point.
  absl::StatusOr<bool> EndEpisode(const v1::ReportEpisodeEndRequest& request);
  // Returns the running attempts in groups admitted under version `admitted_from` or later.
  std::vector<v1::EpisodeRef> Running(int64_t admitted_from = 0) const;
  // Fences the attempt: reports of its end are ignored, and its sample waits again. Does nothing if the attempt or
  // group no longer exists.
  void Fence(const v1::EpisodeRef& ref);
  // Restore the groups after a restart. Call Restore for every episode in the pool that belongs to these groups, in
  // ascending attempt order, and then FinishRestore. The clock restarts for groups with a running sample. REQUIRES:
  // Advance was called.
  void Restore(const v1::Episode& episode);
  void FinishRestore();

  // Returns the group with this client-provided name (AdmitRequest.group), even after Remove, or nullopt.
  std::optional<int64_t> Named(const std::string& name) const;
  // Returns the ended groups without an outcome, sorted by id.
  std::vector<EndedGroup> Ended() const;

  // REQUIRES: contains(group_id).
  const v1::Task& task(int64_t group_id) const { return groups_.at(group_id).task; }
  bool contains(int64_t group_id) const { return groups_.contains(group_id); }
  // REQUIRES: contains(group_id).
  bool branches(int64_t group_id) const { return groups_.at(group_id).width > 0; }
  // Returns the rewards of the judged episodes if the group is rewarded, or else the rewards of the done samples.
  RewardSum Rewards(int64_t group_id) const;
  int64_t running() const { return running_; }

 private:
  // The newest attempt of a sample in a branching group.
  struct Attempt {
    std::string episode_id;  // for a trunk: the last ended episode
    std::string runner;      // the runner that ran the attempt
    std::string scaffold;
    std::string trunk_id;  // for a leaf: Ticket.trunk_id
  };
  struct Group {
    std::string name;  // AdmitRequest.group; empty = any agent may run its samples
    v1::Task task;
    int64_t admitted_version = 0;
    std::vector<Sample> samples;  // the trunks come last
    size_t width = 0;             // leaves per trunk; 0 = the group does not branch
    int32_t fork_at = 0;          // GroupAdmitted.branch_at
    std::vector<Attempt> newest;  // per sample, if the group branches
    // The group's time limit. While its clock runs, the limit is `deadline`. While it is stopped, `left` remains. Both
    // nullopt = no ticket has been handed out since the last reset.
    std::optional<std::chrono::nanoseconds> deadline, left;
    std::string failure;                // empty = it has not failed
    std::optional<RewardSum> rewarded;  // set by MarkRewarded
  };
  static size_t Leaves(const Group& group);
  static bool IsTrunk(const Group& group, size_t sample) { return group.width > 0 && sample >= Leaves(group); }
  static size_t TrunkOf(const Group& group, size_t leaf) { return Leaves(group) + leaf / group.width; }
  static size_t FirstLeafOf(const Group& group, size_t trunk) { return (trunk - Leaves(group)) * group.width; }
  static bool MayTake(const Group& group, size_t sample, const Requester& requester);
  // Unblocks the leaves of a trunk that ended at its fork or finished without one.
  static void FreeLeaves(Group& group, size_t trunk);
  // Retries the trunk after its snapshot was lost.
  void TryTrunkAgain(Group& group, size_t trunk);
  // Updates the leaves from their trunk's state after a restart.
  static void RestoreLeaves(Group& group, size_t trunk);
  // Updates the indexes from the group's samples.
  void Update(int64_t group_id, Group& group);
  // Removes an ended group from every index except ended_. Its running attempts no longer count.
  void MarkEnded(int64_t group_id, Group& group);
  // Returns whether a sample is running or could be handed out.
  bool MayRun(const Group& group) const;
  void SetDeadline(int64_t group_id, Group& group, std::optional<std::chrono::nanoseconds> deadline);
  std::chrono::nanoseconds FullTime() const {
    return std::chrono::nanoseconds(static_cast<int64_t>(options_.group_deadline_seconds * 1e9));
  }
  // Stops or starts the group's clock, according to MayRun.
  void UpdateTime(int64_t group_id, Group& group);
  // Fails the groups that are past their deadline.
  void Expire();

  const SchedulerOptions options_;
  std::chrono::nanoseconds now_{0};
  int64_t live_version_ = 0;
  bool evaluating_ = false;
  std::map<int64_t, Group> groups_;
  std::map<std::string, int64_t> named_;  // every group that was ever added with a name
  std::set<int64_t> waiting_;             // groups that have not ended and have a waiting sample
  std::set<std::pair<std::chrono::nanoseconds, int64_t>> deadlines_;
  std::set<int64_t> ended_;  // groups without an outcome
  int64_t running_ = 0;      // running attempts
};

}  // namespace ingot::scheduler
