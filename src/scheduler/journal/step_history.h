// Records a run's batches by step, and the groups that ended before each batch. Updated from the journal, live and
// during replay. Not thread safe.
#pragma once

#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "scheduler/train_groups.h"

namespace ingot::scheduler {

class StepHistory {
 public:
  // One batch: its groups, and the groups dropped since the previous batch.
  struct Step {
    int64_t journal_index = -1;  // index of its Batch record; -1 = not made yet (the last Step), or in a lost journal
    RewardSum rewards;           // rewards of the batch's groups and of the dropped groups
    int64_t dropped = 0;         // dropped groups
    int64_t groups = 0;          // groups in the batch
  };

  // Makes the journal begin at this step. REQUIRES: nothing has been counted.
  void BeginAt(int64_t step) { steps_.resize(static_cast<size_t>(step) + 1); }
  // `returns` are the returns of the group's samples.
  void AddDropped(std::span<const double> returns) {
    Step& step = steps_.back();
    step.rewards.sum += std::accumulate(returns.begin(), returns.end(), 0.0);
    step.rewards.episodes += std::ssize(returns);
    ++step.dropped;
    ++dropped_;
  }
  void AddFailed() { ++failed_; }
  // Records the batch of the current step and begins the next step. `rewards` has an entry for each of its groups.
  void AddBatch(int64_t journal_index, std::span<const RewardSum> rewards) {
    Step& step = steps_.back();
    step.journal_index = journal_index;
    step.groups = std::ssize(rewards);
    for (const RewardSum& group : rewards) {
      step.rewards.sum += group.sum;
      step.rewards.episodes += group.episodes;
    }
    steps_.emplace_back();
  }

  // Returns the step that has no batch yet.
  const Step& current() const { return steps_.back(); }
  // Returns the last step with a batch, or the current step if there is none.
  const Step& last_made() const { return steps_.size() > 1 ? steps_[steps_.size() - 2] : steps_.back(); }
  // REQUIRES: 0 <= step <= the current step.
  const Step& at(int64_t step) const { return steps_[static_cast<size_t>(step)]; }
  int64_t dropped() const { return dropped_; }  // groups, since the run started
  int64_t failed() const { return failed_; }    // groups, since the run started

 private:
  std::vector<Step> steps_ = std::vector<Step>(1);
  int64_t dropped_ = 0;
  int64_t failed_ = 0;
};

}  // namespace ingot::scheduler
