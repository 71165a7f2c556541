// Which task a new group gets. A choice is a function of the seed, the group's id and the journal's history: the tasks
// of earlier groups and their success. A replay of the journal restores the sampler, and the next choice is the same as
// in an uninterrupted run.
//
//   every task   --> eligible?  not used (once), not retired (adaptive), hard enough (after the warm-up), known enough
//                               yet (curriculum)
//                --> weight     of its domain, and 1 - success rate (prioritised)
//                --> draw
//
// Without any of these settings the choice is a shuffled pass over the list: each pass holds every task once.
//
// Sources: curriculum and prioritised sampling, and all tasks first and hard ones later, are Kimi k1.5's (arXiv
// 2501.12599, section 2.3.4), the pace of the curriculum is the competence of Platanios et al. (arXiv 1903.09848, eq.
// 7), each task once is Composer 2's (arXiv 2603.24477), and leaving out tasks that are always or never solved is
// DAPO's (arXiv 2503.14476, section 3.2), across groups.
//
// Not thread safe. O(tasks) per choice with any of the settings, O(1) amortised without.
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
  // Why Choose returns nullptr, for messages.
  static constexpr char kUsedUp[] = "every task was used once (scheduler.sampling.once)";

  // `tasks` may be empty if Choose is never called. INVALID_ARGUMENT names the first task that lacks what the settings
  // need: a difficulty or pass rate, or the weight of its domain.
  static absl::StatusOr<TaskSampler> Make(std::vector<v1::Task> tasks, const SamplingOptions& options, uint64_t seed);

  // The task of a new group. `progress`: the step that the group will be trained in at the earliest, over the run's
  // steps. nullptr = no task is left, under `once`.
  const v1::Task* Choose(int64_t group, double progress);

  // Tasks left under `once`.
  int64_t left() const { return left_; }

  // A group of this task was admitted. Tasks that are not in the list change nothing.
  void Admitted(const std::string& task_id);
  // A group of this task has ended: the share of its episodes that succeeded.
  void Ended(const std::string& task_id, double success);

 private:
  // A task's history and its place in the curriculum.
  struct TaskHistory {
    double difficulty_rank = 0;     // share of tasks that are easier, in [0, 1)
    std::optional<double> success;  // running mean over its groups, newer ones weigh more; nullopt = none has ended
    int64_t groups = 0;             // admitted
    int32_t uniform_in_a_row = 0;   // ended groups, up to the last, that all succeeded or all failed
    int64_t retired_until = 0;      // ended groups of the run before it is tried again
  };

  TaskSampler(std::vector<v1::Task> tasks, const SamplingOptions& options, uint64_t seed);
  absl::Status ReadTasks();
  const v1::Task& NextOfPass(int64_t group);
  // The weight of each task for this choice; 0 = not eligible. `stage`: settings to ignore, so that a choice exists: 0
  // none, 1 retirement, 2 also the curriculum and hard_below.
  std::vector<double> Weights(double progress, int stage) const;

  std::vector<v1::Task> tasks_;
  SamplingOptions options_;
  uint64_t seed_;
  std::map<std::string, size_t> index_;  // by task id
  std::vector<TaskHistory> known_;
  int64_t ended_ = 0;  // groups
  int64_t left_ = 0;   // tasks that no group had

  int64_t pass_ = -1;           // of order_; -1 = none yet
  std::vector<int32_t> order_;  // of the tasks in this pass
};

}  // namespace ingot::scheduler
