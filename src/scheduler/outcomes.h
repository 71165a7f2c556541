// Decides what happens to a group whose samples have ended, and journals it: the group gets its reward, is dropped, or
// fails. Also journals the results of evaluations.
//
//   ended group --+--> failed, or no reward stage ------------------------> outcome --> the run's journal
//                 `--> waits for its reward: the stage is asked --> answer ----^
//
// A group is judged as a whole, once (grader.h). Until its outcome is journalled it is open: no batch takes it. After a
// restart the stage is asked again and answers from the pool. Without a stage the returns reported with the episodes'
// ends are journalled at once.
//
// Not thread safe. Decide blocks for one journal write per group or evaluation; the stage is asked on the threads of
// Grading.executor.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "proto/reward.pb.h"
#include "scheduler/grade_board.h"
#include "scheduler/grader.h"
#include "scheduler/journal/journaled_run.h"
#include "scheduler/options.h"
#include "scheduler/scheduler_metrics.h"
#include "scheduler/train_groups.h"

namespace ingot::scheduler {

class Outcomes {
 public:
  // Takes the stage's answer about a group to Answer, on a thread of Grading.executor.
  using OnGraded = std::function<void(int64_t group_id, absl::StatusOr<v1::GradeResponse> graded)>;

  // `clock` outlives it. `on_graded` must be callable until the executor is shut down.
  Outcomes(const SchedulerOptions& options, const Grading& grading, const base::Clock& clock, SchedulerMetrics metrics,
           OnGraded on_graded);

  // The run is recovered: Decide may ask the reward stage from now on.
  void StartAsking() { asking_ = true; }
  // Journals the outcome of every ended group that has one, and the result of every evaluation that is done. True =
  // something was journalled. Errors: JournaledRun::Write's.
  absl::StatusOr<bool> Decide(JournaledRun& run);
  // The stage answered. The next Decide continues with it.
  void Answer(int64_t group_id, absl::StatusOr<v1::GradeResponse> graded);

  int64_t grading() const { return grades_.size(); }  // groups that wait for their reward
  // The error of the oldest of them whose request failed; empty = none.
  std::string LastError() const { return grades_.LastError(); }

 private:
  struct Outcome {
    std::vector<double> returns;  // of the judged episodes
    bool equal = false;           // nothing in them can be trained on
    std::optional<double> success;
    std::string failure;             // empty = the group has its reward
    std::vector<std::string> terms;  // of the reward, which judged the group
    std::string failed_term;         // the term that failed it; empty = another reason
  };
  // nullopt = the group waits for its reward. Asks the reward stage when it is time.
  std::optional<Outcome> OutcomeOf(const EndedGroup& ended);
  Outcome Judged(const EndedGroup& ended, const v1::GradeResponse& graded);
  // The share of the outcomes that succeeded; nullopt = there are none.
  std::optional<double> SuccessOf(const std::vector<double>& outcomes) const;
  void Ask(const EndedGroup& ended) const;
  absl::Status Write(int64_t group_id, const Outcome& outcome, JournaledRun& run);
  static absl::StatusOr<bool> WriteEvalResults(JournaledRun& run);

  const SchedulerOptions options_;
  const Grading grading_;
  const base::Clock& clock_;
  SchedulerMetrics metrics_;
  const OnGraded on_graded_;
  GradeBoard grades_;
  bool asking_ = false;
};

}  // namespace ingot::scheduler
