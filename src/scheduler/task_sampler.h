// Chooses the task of a new group. A choice is a function of the seed, the group's id, and the history in the journal:
// earlier groups' tasks and success. A replay of the journal restores the sampler, and the next choice is the same as
// in an uninterrupted run.
//
//   every task   --> eligible?  not used (once), not retired (adaptive), hard enough (after the warm-up), in the
//                               curriculum so far
//                --> weight     of its domain, and 1 - success rate (prioritized)
//                --> draw
//
// Without any of these settings, the choice is a shuffled pass over the list. Each pass contains every task once.
//
// Sources: curriculum sampling, prioritized sampling, and the warm-up with all tasks are from Kimi k1.5 (arXiv
// 2501.12599, section 2.3.4). The curriculum's pace is the competence function of Platanios et al. (arXiv 1903.09848,
// eq. 7). Using each task only once comes from Composer 2 (arXiv 2603.24477). Excluding tasks that are always or never
// solved comes from DAPO (arXiv 2503.14476, section 3.2), applied here across groups.
//
// Not thread safe. O(tasks) per choice with any of these settings, and amortized O(1) without them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "proto/tree.pb.h"
#include "scheduler/options.h"

namespace ingot::scheduler {

class TaskSampler {
 public:
  // The reason why Choose returned nullptr, for error messages.
  static constexpr char kUsedUp[] = "every task was used once (scheduler.sampling.once)";

  // `tasks` may be empty if Choose is never called. Returns INVALID_ARGUMENT with the first task that lacks data for
  // the settings: a difficulty, a pass rate, or a weight for its domain.
  static absl::StatusOr<TaskSampler> Make(std::vector<v1::Task> tasks, const SamplingOptions& options, uint64_t seed);

  // Returns the task for a new group. `progress` is the earliest step that could train the group, divided by the number
  // of steps in the run. Returns nullptr if `once` is set and no task is left.
  const v1::Task* Choose(int64_t group, double progress);

  // Returns the number of unused tasks, if `once` is set.
  int64_t left() const { return left_; }

  // Records that a group with this task was admitted. Ignores tasks that are not in the list.
  void Admitted(const std::string& task_id);
  // Records that a group with this task has ended. `success` is the fraction of its episodes that succeeded.
  void Ended(const std::string& task_id, double success);

 private:
  // A task's history and its position in the curriculum.
  struct TaskHistory {
    double difficulty_rank = 0;     // fraction of tasks that are easier, in [0, 1)
    std::optional<double> success;  // running mean over its groups, favoring newer groups; nullopt = none has ended
    int64_t groups = 0;             // admitted
    int32_t uniform_in_a_row = 0;   // most recent consecutive ended groups that all succeeded or all failed
    int64_t retired_until = 0;      // the task is eligible again once this many groups in the run have ended
  };

  TaskSampler(std::vector<v1::Task> tasks, const SamplingOptions& options, uint64_t seed);
  absl::Status ReadTasks();
  const v1::Task& NextOfPass(int64_t group);
  // Returns the weight of each task for this choice; 0 = not eligible. `stage` selects the settings to ignore so that
  // at least one task is eligible: 0 = none, 1 = retirement, 2 = also the curriculum and hard_below.
  std::vector<double> Weights(double progress, int stage) const;

  std::vector<v1::Task> tasks_;
  SamplingOptions options_;
  uint64_t seed_;
  std::map<std::string, size_t> index_;  // by task id
  std::vector<TaskHistory> known_;
  int64_t ended_ = 0;  // ended groups
  int64_t left_ = 0;   // tasks that no group has used

  int64_t pass_ = -1;           // index of the pass in order_; -1 = none yet
  std::vector<int32_t> order_;  // task order in this pass
};

}  // namespace ingot::scheduler
