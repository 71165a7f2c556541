// Rewards every complete training group durably and exactly once.
//
//   Grade --> read the group --> facts --> terms over the whole group --> grades in the pool --> the group's returns
//
// The stage's results are stored durably only in the pool. If a group already has stored grades, they are returned, so
// judges are not called twice. The stage loads earlier groups' measures (GroupFacts.history) from the pool once. If a
// group is requested twice, the second request waits for the first. If a term still lacks its measures for a task, the
// task's groups are judged one at a time, because only one group may set an estimate. After that, they are judged in
// parallel. Thread safe. Grade blocks on the pool, on terms that call servers, and until it is the request's turn.
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
  int64_t total_steps = 1;                        // the run's total steps, where every schedule ends
  ReturnComparison compared = {};                 // determines whether there is anything to train on
  std::chrono::milliseconds turn_timeout{30000};  // maximum wait for another request's judgment; then UNAVAILABLE
};

class Stage {
 public:
  // REQUIRES: `pool` outlives the stage.
  Stage(Rule rule, datapool::Client& pool, const StageOptions& options)
      : rule_(std::move(rule)), pool_(pool), options_(options), history_(std::make_unique<History>()) {}

  // Judges the group, or returns its stored reward. Returns the errors of scheduler/grader.h and of the pool.
  absl::StatusOr<v1::GradeResponse> Grade(const v1::GradeRequest& request);

 private:
  struct History {
    base::Mutex mu;
    base::CondVar judged;
    bool read ABSL_GUARDED_BY(mu) = false;  // the pool has been read
    TaskHistory tasks ABSL_GUARDED_BY(mu);
    std::set<std::string> in_turn ABSL_GUARDED_BY(mu);  // groups being judged, or their tasks
  };
  // A request's turn. TakeTurn blocks until the turn starts, and the destructor ends it.
  class Turn;

  absl::StatusOr<v1::Group> Read(int64_t group_id);
  absl::StatusOr<v1::GradeResponse> Judge(const v1::Group& group, const GroupFacts& facts);
  absl::StatusOr<TaskHistory::OfTask> HistoryOf(const std::string& task_id);
  // Grades from other processes or from before a restart are treated like grades from this stage.
  void Remember(const v1::Group& group, const GroupGrades& grades);
  // Returns the response stored in the pool, or nullopt if the group was not judged yet.
  std::optional<v1::GradeResponse> StoredAnswer(const v1::Group& group);
  v1::GradeResponse Answer(const v1::Group& group, const GroupGrades& grades) const;

  Rule rule_;
  datapool::Client& pool_;
  StageOptions options_;
  std::unique_ptr<History> history_;
};

}  // namespace ingot::reward
