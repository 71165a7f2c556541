// The samples of admitted groups that are not in a batch: each waits for an agent, runs, or is done. Knows neither
// window nor journal.
//
//   Add --> samples: handed out, ended, tried again --> the group ends: all samples are done, or it failed
//
//   ended --> Scheduler decides the outcome --+--> rewarded: MarkRewarded --> in a batch: Remove
//             (asks the reward stage)         `--> dropped or failed: Remove
//
// Branching (GroupAdmitted.branch_width). The samples of a group are then the leaves of trunks. The trunks' indices
// follow the leaves':
//
//   group_size 4, width 2     leaf 0  leaf 1  leaf 2  leaf 3   trunk 4  trunk 5
//                                  of trunk 4       of trunk 5
//
//   trunk   waits --> runs --FORKED--> its leaves wait, for its recipe and the runner that holds the snapshot
//                       |----FINISHED--> it stands for its first leaf; the others begin anew, without a fork
//                       '----FAILED, ..--> tried again; its leaves stay blocked
//
// The group ends when its leaves are done and its trunks forked or done. A leaf that fails is forked again from the
// same snapshot. If its runner has lost the snapshot (cause "snapshot"), the trunk is tried again, and the results of
// its leaves no longer count. The pool's episodes hold all of that: a trunk's state, its runner, and each leaf's trunk.
// So a restored group continues where it was, without its own records in the journal.
//
// A group's time is group_deadline_seconds from its first ticket; after that the group fails. The time runs while one
// of the group's samples runs or may be handed out. It stops while evaluations go first: they take every opening that
// names no group. It starts again with the next ticket if the run goes back below the version under which the group was
// admitted.
//
// Not thread safe. O(log n) per call in the number of groups, plus the group's size; O(n) if Advance changes something.
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
  std::vector<double> returns;  // as reported, of its done samples by index; empty = it failed
};

// Who asks for a sample.
struct Asker {
  std::string runner = {};    // AdmitRequest.runner
  std::string scaffold = {};  // AdmitRequest.scaffold
};

class TrainGroups {
 public:
  explicit TrainGroups(const SchedulerOptions& options) : options_(options) {}

  void Add(const v1::GroupAdmitted& admitted);
  // Forgets the group: its running episodes no longer count. An unknown id changes nothing.
  void Remove(int64_t group_id);
  // The group has its reward: it ends, if it has not, and waits for its batch. `returns`: of its judged episodes; they
  // stay until Remove.
  void MarkRewarded(int64_t group_id, RewardSum returns);

  // Sets the time, the live version and whether evaluations run, which go first. Fails every group whose time is over.
  // The caller advances before any other call, and again when one of the three changes.
  void Advance(std::chrono::nanoseconds now, int64_t live_version, bool evaluating);

  // A waiting sample of the oldest unnamed group that has one; nullopt = none waits. Skips groups that were admitted
  // under a version above the live version. After a resume such a group waits for its version, or its tokens would be
  // older than the window allows. `asker`: decides about trunks and leaves.
  std::optional<v1::Ticket> NextTicket(const Asker& asker = {});
  // A waiting sample of this group, under the same conditions; nullopt = none waits.
  std::optional<v1::Ticket> TicketOf(int64_t group_id, const Asker& asker = {});

  // An episode ended. False = nothing changed: a repetition, or a late end, of a group or attempt that is over.
  // INVALID_ARGUMENT: no such sample or attempt, or the state is not an end. REQUIRES: the group was admitted once.
  absl::StatusOr<bool> EndEpisode(const v1::ReportEpisodeEndRequest& request);
  // The running attempts of groups that were admitted under version `admitted_from` or later.
  std::vector<v1::EpisodeRef> Running(int64_t admitted_from = 0) const;
  // Fences the attempt: its end is ignored, and its sample waits again. Changes nothing if the attempt is over or its
  // group is gone.
  void Fence(const v1::EpisodeRef& ref);
  // After a restart: Restore takes every episode that the pool holds of these groups, attempts ascending; FinishRestore
  // ends it. The time of groups with a running sample starts again. REQUIRES: Advance was called.
  void Restore(const v1::Episode& episode);
  void FinishRestore();

  // The group that clients call by this name (AdmitRequest.group), even after Remove; nullopt = none had it.
  std::optional<int64_t> Named(const std::string& name) const;
  // The ended groups without an outcome, by id.
  std::vector<EndedGroup> Ended() const;

  // REQUIRES: contains(group_id).
  const v1::Task& task(int64_t group_id) const { return groups_.at(group_id).task; }
  bool contains(int64_t group_id) const { return groups_.contains(group_id); }
  // REQUIRES: contains(group_id).
  bool branches(int64_t group_id) const { return groups_.at(group_id).width > 0; }
  // Over its judged episodes, once it is rewarded; otherwise over its done samples.
  RewardSum Rewards(int64_t group_id) const;
  int64_t running() const { return running_; }

 private:
  // The newest attempt of a sample of a group that branches.
  struct Attempt {
    std::string episode_id;  // of a trunk that ended
    std::string runner;      // that ran it
    std::string scaffold;
    std::string trunk_id;  // of a leaf: Ticket.trunk_id
  };
  struct Group {
    std::string name;  // AdmitRequest.group; empty = any agent may run its samples
    v1::Task task;
    int64_t admitted_version = 0;
    std::vector<Sample> samples;  // the trunks are the last ones
    size_t width = 0;             // leaves of a trunk; 0 = the group does not branch
    int32_t fork_at = 0;          // GroupAdmitted.branch_at
    std::vector<Attempt> newest;  // of `samples`, if the group branches
    // The group's time: it ends at `deadline` while it runs; `left` remains while it is stopped. Both nullopt = no
    // ticket was handed out since the time began.
    std::optional<std::chrono::nanoseconds> deadline, left;
    std::string failure;                // empty = it has not failed
    std::optional<RewardSum> rewarded;  // MarkRewarded
  };
  static size_t Leaves(const Group& group);
  static bool IsTrunk(const Group& group, size_t sample) { return group.width > 0 && sample >= Leaves(group); }
  static size_t TrunkOf(const Group& group, size_t leaf) { return Leaves(group) + leaf / group.width; }
  static size_t FirstLeafOf(const Group& group, size_t trunk) { return (trunk - Leaves(group)) * group.width; }
  static bool MayTake(const Group& group, size_t sample, const Asker& asker);
  // A trunk ended at its fork, or finished without one: its leaves may run.
  static void FreeLeaves(Group& group, size_t trunk);
  // The snapshot of the trunk is lost.
  void TryTrunkAgain(Group& group, size_t trunk);
  // Updates the leaves from their trunk's state, after a restart.
  static void RestoreLeaves(Group& group, size_t trunk);
  // Updates the indices from the group's samples.
  void Update(int64_t group_id, Group& group);
  // Takes an ended group out of every index but ended_. Its running attempts no longer count.
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
  std::map<std::string, int64_t> named_;  // every group that was added with a name
  std::set<int64_t> waiting_;             // groups that have not ended and have a waiting sample
  std::set<std::pair<std::chrono::nanoseconds, int64_t>> deadlines_;
  std::set<int64_t> ended_;  // groups without an outcome
  int64_t running_ = 0;      // attempts
};

}  // namespace ingot::scheduler
