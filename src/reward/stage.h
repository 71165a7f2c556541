// The reward stage: gives every complete training group its reward, once, durably.
//
//   Grade --> read the group --> facts --> terms over the whole group --> grades in the pool --> the group's returns
//
// The pool is the stage's only durable memory: stored grades answer a later question about the group, and no judge is
// asked twice. The stage reads measures of earlier groups (GroupFacts.history) from it once. A second request for a
// group waits for the first judgement. While a term lacks the measures that it needs for a task, the task's groups are
// judged one after another, because only one group sets an estimate. After that they are judged in parallel. Thread
// safe; Grade blocks for the pool, for terms that ask other servers, and for such a turn.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/mutex.h"
#include "base/status.h"
#include "datapool/client.h"
#include "proto/reward.pb.h"
#include "reward/history.h"
#include "reward/rule.h"

namespace ingot::reward {

struct StageOptions {
  int64_t total_steps = 1;                        // of the run: the end of every schedule
  ReturnComparison compared = {};                 // decides whether a group can teach anything
  std::chrono::milliseconds turn_timeout{30000};  // for the judgement of another request; then UNAVAILABLE
};

class Stage {
 public:
  // REQUIRES: `pool` outlives the stage.
  Stage(Rule rule, datapool::Client& pool, const StageOptions& options)
      : rule_(std::move(rule)), pool_(pool), options_(options), history_(std::make_unique<History>()) {}

  // Gives the group its reward, or returns the stored reward. The errors of scheduler/grader.h and of the pool.
  absl::StatusOr<v1::GradeResponse> Grade(const v1::GradeRequest& request);

 private:
  struct History {
    base::Mutex mu;
    base::CondVar judged;
    bool read ABSL_GUARDED_BY(mu) = false;  // from the pool
    TaskHistory tasks ABSL_GUARDED_BY(mu);
    std::set<std::string> in_turn ABSL_GUARDED_BY(mu);  // groups that are being judged, or their tasks
  };
  // The turn of a request; waits for it. Destroying it ends the turn.
  class Turn;

  absl::StatusOr<v1::Group> Read(int64_t group_id);
  absl::StatusOr<v1::GradeResponse> Judge(const v1::Group& group, const GroupFacts& facts);
  absl::StatusOr<TaskHistory::OfTask> HistoryOf(const std::string& task_id);
  // Grades from another process, or from before a restart, count like this stage's own.
  void Remember(const v1::Group& group, const GroupGrades& grades);
  // The answer from the pool; nullopt = the group has not been judged.
  std::optional<v1::GradeResponse> StoredAnswer(const v1::Group& group);
  v1::GradeResponse Answer(const v1::Group& group, const GroupGrades& grades) const;

  Rule rule_;
  datapool::Client& pool_;
  StageOptions options_;
  std::unique_ptr<History> history_;
};

}  // namespace ingot::reward
