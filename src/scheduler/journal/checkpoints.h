// Tracks a run's newest checkpoint and the checkpoints that the trainer has not deleted. Updated from the journal, live
// and during replay. Not thread safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>

#include "proto/journal.pb.h"

namespace ingot::scheduler {

class Checkpoints {
 public:
  // `keep` is the number of checkpoints that the trainer keeps, > 0.
  explicit Checkpoints(int64_t keep) : keep_(keep) {}

  void Add(const v1::CheckpointSaved& checkpoint) {
    newest_ = checkpoint;
    // Later checkpoints belong to steps that will run again.
    kept_.erase(kept_.lower_bound(checkpoint.step()), kept_.end());
    kept_.insert(checkpoint.step());
    if (std::ssize(kept_) > keep_) kept_.erase(kept_.begin());
  }

  bool IsNewest(int64_t step, uint64_t weights_checksum) const {
    return newest_.has_value() && newest_->step() == step && newest_->weights_checksum() == weights_checksum;
  }
  // Returns the lowest step that a kept checkpoint would replay or that is within `keep_steps` of the newest
  // checkpoint.
  int64_t UnusedBelow(int64_t keep_steps) const {
    return kept_.empty() ? 0 : std::max<int64_t>(0, std::min(*kept_.begin(), newest_->step() - keep_steps));
  }

 private:
  const int64_t keep_;
  std::optional<v1::CheckpointSaved> newest_;
  std::set<int64_t> kept_;  // steps
};

}  // namespace ingot::scheduler
