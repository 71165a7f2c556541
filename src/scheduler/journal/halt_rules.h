// The rules that end a run before its last step because of its groups, episodes, or terms. They count events that
// indicate that further episodes would be wasted. The trainer has its own rule for steps: trainer/step/skipped_steps.h.
//
//   rule          ends the run after                                                          checked by
//   failed        more than B groups failed and none finished for give_up_seconds             CheckGroups
//   equal         give_up_equal groups in a row were dropped for equal rewards                CheckGroups
//   used up       every task was used once, and too few groups remain for a batch             CheckGroups
//   unstarted     give_up_unstarted episodes in a row failed during setup; if one has         CheckUnstarted,
//                 finished before, only after give_up_seconds of them                         CheckGroups
//   failed term   give_up_groups groups in a row failed because of one reward term            CheckTerms
//
// Group counts are updated from the journal, live and during replay, so they survive a restart. Counts of episodes and
// terms begin when this process starts.
//
// Not thread safe. Every check returns OK, or FAILED_PRECONDITION with instructions.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "proto/scheduler.pb.h"
#include "scheduler/options.h"
#include "scheduler/policy.h"

namespace ingot::scheduler {

class HaltRules {
 public:
  // `give_up_groups` is as in Grading.
  HaltRules(const SchedulerOptions& options, int32_t give_up_groups)
      : options_(options), give_up_groups_(give_up_groups) {}

  // ---- Groups, as recorded in the journal
  void GroupRewarded();
  // `returns` are the returns of the group's samples.
  void GroupDropped(int64_t group_id, std::span<const double> returns);
  void GroupFailed(int64_t group_id, const std::string& reason, std::chrono::nanoseconds now);
  // Called after the replay. If the run was restarted after a rule ended it, the problem was presumably fixed, so only
  // later groups count.
  void RunStartedAgain();

  // ---- Episodes and reward terms
  // An episode was reported as ended. A failure counts as a setup failure if the runner reports it as one, or if no
  // agent has made a call yet.
  void EpisodeEnded(const v1::ReportEpisodeEndRequest& ended, std::chrono::nanoseconds now);
  // A group has its outcome. `judged` are the terms that judged it. `failed` is the term that failed it, with the
  // failure; empty = none.
  void TermsAsked(const std::vector<std::string>& judged, const std::string& failed, const std::string& failure);

  // ---- Checks
  // Called for a batch that is not ready. `tasks_left` is the number of unused tasks if tasks are used only once.
  absl::Status CheckGroups(const WindowedFifo& policy, int64_t tasks_left, std::chrono::nanoseconds now) const;
  // `all_failed` means that there will be no more episodes, so a single failure is enough if no episode has finished.
  absl::Status CheckUnstarted(bool all_failed, std::chrono::nanoseconds now) const;
  absl::Status CheckTerms() const;
  // Logs a warning at a quarter of the number of groups that would end the run. Called after each live drop.
  void WarnOfEqual() const;

  int64_t finished_episodes() const { return finished_episodes_; }   // since this process started
  const std::string& last_failure() const { return last_failure_; }  // the last group's failure; empty = none failed

 private:
  absl::Status CheckUnstartedAgain(std::chrono::nanoseconds now) const;
  absl::Status CheckFailed(const WindowedFifo& policy, std::chrono::nanoseconds now) const;
  absl::Status CheckEqual(const WindowedFifo& policy) const;
  absl::Status CheckTasksLeft(const WindowedFifo& policy, int64_t tasks_left) const;
  std::string DescribeEqual() const;  // the rewards and the last group
  // 0 = dropped groups never end the run.
  int64_t MaxEqual() const { return options_.max_drops_per_batch > 0 ? 0 : options_.give_up_equal; }

  const SchedulerOptions options_;
  const int32_t give_up_groups_;

  int64_t failed_in_a_row_ = 0;                // groups, since a group finished or was dropped
  std::chrono::nanoseconds failing_since_{0};  // time of the first of these failures
  std::string last_failure_;
  // Consecutive dropped groups, ignoring failed groups between them.
  struct EqualGroups {
    int64_t groups = 0;
    double low = 0, high = 0;  // range of their samples' returns
    int64_t last = -1;         // id of the last group
  };
  EqualGroups equal_;
  // Consecutive episodes that failed during setup, the time of the first failure, and the last reason.
  int64_t unstarted_ = 0;
  std::chrono::nanoseconds unstarted_since_{0};
  std::string last_unstarted_;
  int64_t finished_episodes_ = 0;
  // Reward terms that judged none of the episodes in the last groups sent to them.
  struct FailedTerm {
    int64_t groups = 0;  // consecutive
    std::string last;    // the failure of the last group
  };
  std::map<std::string, FailedTerm> failed_terms_;  // by name
};

}  // namespace ingot::scheduler
