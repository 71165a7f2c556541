// Manages a supervised stage's checkpoints (checkpoint.h), which are in a separate directory, numbered by optimizer
// step. A stage resumed from a checkpoint is bit-identical to an uninterrupted one on the same number of ranks, and
// equal up to rounding on a different number.
//
// Each checkpoint contains stage.json, with checksums of the stage's data and initial weights. A stage does not resume
// from a checkpoint with different data or initial weights.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "trainer/checkpoints/checkpoint.h"
#include "tree/forest.h"

namespace ingot::trainer {

class StageCheckpoints {
 public:
  StageCheckpoints() = default;  // the stage writes no checkpoints
  // Uses checkpoints in `root`. `weights_checksum` is weights::Snapshot::checksum of the stage's initial weights.
  StageCheckpoints(std::string root, uint64_t weights_checksum, const std::vector<tree::CallPath>& calls);

  bool kept() const { return !root_.empty(); }
  const std::string& root() const { return root_; }
  // Returns the extra files for every checkpoint, by name.
  const std::map<std::string, std::string>& files() const { return files_; }

  // Returns the newest intact checkpoint, or step 0 and an empty path if there is none. Returns FAILED_PRECONDITION if
  // it is for different data or initial weights. Other errors come from LatestCheckpoint.
  absl::StatusOr<CheckpointInfo> Newest() const;

 private:
  std::string root_;
  std::map<std::string, std::string> files_;
};

// Returns the optimizer steps of the newest checkpoint in `root`, or 0 if there is none.
absl::StatusOr<int64_t> StageSteps(const std::string& root);

}  // namespace ingot::trainer
