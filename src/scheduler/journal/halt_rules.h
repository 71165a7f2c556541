// The rules that end a run by its groups, episodes and terms, before its last step: they count what shows that more
// episodes would be wasted. The trainer has its own rule, about steps: trainer/step/skipped_steps.h.
//
//   rule          ends the run after                                                          checked by
//   failed        more than B groups failed and none finished for give_up_seconds             CheckGroups
//   equal         give_up_equal groups in a row were dropped for equal rewards                CheckGroups
//   used up       every task was used once, and the groups that remain make no batch          CheckGroups
//   unstarted     give_up_unstarted episodes in a row failed in their set-up; once one has     CheckUnstarted, and above
//                 finished, they must also have failed for give_up_seconds
//   failed term   give_up_groups groups in a row failed because of one reward term            CheckTerms
//
// Counts of groups follow the journal, live and replayed, so they survive a restart. Episodes and terms are counted
// since this process's start.
//
// Not thread safe. Every check returns FAILED_PRECONDITION with what to do, or OK.
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
  // `give_up_groups`: as in Grading.
  HaltRules(const SchedulerOptions& options, int32_t give_up_groups)
      : options_(options), give_up_groups_(give_up_groups) {}

  // ---- Groups, as the journal records them
  void GroupRewarded();
  // `returns`: of its samples.
  void GroupDropped(int64_t group_id, std::span<const double> returns);
  void GroupFailed(int64_t group_id, const std::string& reason, std::chrono::nanoseconds now);
  // The journal was replayed. A run that was given up and started again was fixed: only groups after that end count.
  void RunStartedAgain();

  // ---- Episodes and reward terms
  // An episode was reported as ended. A failure is of the set-up if its runner says so, or if no agent has got as far
  // as a call.
  void EpisodeEnded(const v1::ReportEpisodeEndRequest& ended, std::chrono::nanoseconds now);
  // A group has its outcome: `judged` are the terms that judged it. `failed`: the term that failed it, with the
  // failure; empty = none.
  void TermsAsked(const std::vector<std::string>& judged, const std::string& failed, const std::string& failure);

  // ---- Checks
  // For a batch that is not ready. `tasks_left`: that no group had, if a task may be used once only.
  absl::Status CheckGroups(const WindowedFifo& policy, int64_t tasks_left, std::chrono::nanoseconds now) const;
  // `all_failed`: no more episodes will come, so one failure is enough if none has finished.
  absl::Status CheckUnstarted(bool all_failed, std::chrono::nanoseconds now) const;
  absl::Status CheckTerms() const;
  // Warns once, at a quarter of the groups that end the run. Called after each live drop.
  void WarnOfEqual() const;

  int64_t finished_episodes() const { return finished_episodes_; }   // since this process's start
  const std::string& last_failure() const { return last_failure_; }  // of a group; empty = none has failed

 private:
  absl::Status CheckUnstartedAgain(std::chrono::nanoseconds now) const;
  absl::Status CheckFailed(const WindowedFifo& policy, std::chrono::nanoseconds now) const;
  absl::Status CheckEqual(const WindowedFifo& policy) const;
  absl::Status CheckTasksLeft(const WindowedFifo& policy, int64_t tasks_left) const;
  std::string DescribeEqual() const;  // the rewards, and the last group
  // 0 = no number of dropped groups ends the run.
  int64_t MostEqual() const { return options_.max_drops_per_batch > 0 ? 0 : options_.give_up_equal; }

  const SchedulerOptions options_;
  const int32_t give_up_groups_;

  int64_t failed_in_a_row_ = 0;                // groups, since one finished or was dropped
  std::chrono::nanoseconds failing_since_{0};  // of the first of them
  std::string last_failure_;
  // Groups dropped in a row. Failed groups between them do not count.
  struct EqualGroups {
    int64_t groups = 0;
    double low = 0, high = 0;  // bounds of their samples' returns
    int64_t last = -1;         // id of the last of them
  };
  EqualGroups equal_;
  // Episodes in a row that failed in their set-up, since one finished; the time of the first, and the last reason.
  int64_t unstarted_ = 0;
  std::chrono::nanoseconds unstarted_since_{0};
  std::string last_unstarted_;
  int64_t finished_episodes_ = 0;
  // Reward terms that judged nothing in the last groups they were asked about.
  struct FailedTerm {
    int64_t groups = 0;  // in a row
    std::string last;    // the failure of the last of them
  };
  std::map<std::string, FailedTerm> failed_terms_;  // by name
};

}  // namespace ingot::scheduler
