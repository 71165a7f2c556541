// Decides and journals the outcome of each group that has ended: the group gets its reward, is dropped, or fails. Also
// journals evaluation results.
//
//   ended group --+--> failed, or no reward stage ------------------------> outcome --> the run's journal
//                 `--> waits for its reward: request to the stage --> answer --^
//
// A group is judged once, as a whole (grader.h). It stays open until its outcome is journaled, so no batch takes it
// earlier. After a restart, the request is repeated, and the stage answers from the pool. Without a stage, the returns
// that were reported at the end of the episodes are journaled immediately.
//
// Not thread safe. Decide blocks for one journal write per group or evaluation. Requests to the stage run on the
// threads of Grading.executor.
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
  // Passes the stage's answer about a group to Answer. Called on a thread of Grading.executor.
  using OnGraded = std::function<void(int64_t group_id, absl::StatusOr<v1::GradeResponse> graded)>;

  // `clock` must outlive this object. `on_graded` must be callable until the executor is shut down.
  Outcomes(const SchedulerOptions& options, const Grading& grading, const base::Clock& clock, SchedulerMetrics metrics,
           OnGraded on_graded);

  // Called after the run is recovered. From then on, Decide may send requests to the reward stage.
  void StartAsking() { asking_ = true; }
  // Journals the outcome of every ended group that can be decided, and the result of every finished evaluation. Returns
  // whether anything was journaled. Same errors as JournaledRun::Write.
  absl::StatusOr<bool> Decide(JournaledRun& run);
  // Stores the stage's answer, which the next Decide uses.
  void Answer(int64_t group_id, absl::StatusOr<v1::GradeResponse> graded);

  int64_t grading() const { return grades_.size(); }  // groups waiting for their rewards
  // Returns the error for the oldest waiting group with a failed request; empty = none.
  std::string LastError() const { return grades_.LastError(); }

 private:
  struct Outcome {
    std::vector<double> returns;  // returns of the judged episodes
    bool equal = false;           // the returns are equal, so there is nothing to train on
    std::optional<double> success;
    std::string failure;             // empty = the group has its reward
    std::vector<std::string> terms;  // the reward terms that judged the group
    std::string failed_term;         // the term that failed it; empty = another reason
  };
  // Returns nullopt if the group is waiting for its reward. Sends the request to the reward stage when it is due.
  std::optional<Outcome> OutcomeOf(const EndedGroup& ended);
  Outcome Judged(const EndedGroup& ended, const v1::GradeResponse& graded);
  // Returns the fraction of outcomes that are successes, or nullopt if there are no outcomes.
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
