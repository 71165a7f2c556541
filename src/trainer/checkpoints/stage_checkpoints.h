// The checkpoints of a supervised stage (checkpoint.h), in a separate folder, numbered by the optimizer steps taken. A
// stage that continues from one is bit-identical to a stage that never stopped, on the same number of ranks; on another
// number of ranks it is equal up to rounding.
//
// Each checkpoint holds stage.json: the checksums of the stage's data and of its first weights. A stage does not
// continue from a checkpoint of other data or other first weights.
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
  // Checkpoints in `root`, of a stage whose first weights have that checksum (weights::Snapshot::checksum).
  StageCheckpoints(std::string root, uint64_t weights_checksum, const std::vector<tree::CallPath>& calls);

  bool kept() const { return !root_.empty(); }
  const std::string& root() const { return root_; }
  // Extra files of every checkpoint, by name.
  const std::map<std::string, std::string>& files() const { return files_; }

  // The newest intact checkpoint; if none exists, step 0 and an empty path. FAILED_PRECONDITION: it is of other data
  // or other first weights. Other errors as LatestCheckpoint.
  absl::StatusOr<CheckpointInfo> Newest() const;

 private:
  std::string root_;
  std::map<std::string, std::string> files_;
};

// Optimizer steps of the newest checkpoint in `root`; 0 = none.
absl::StatusOr<int64_t> StageSteps(const std::string& root);

}  // namespace ingot::trainer
