// Where a supervised stage keeps how far it has come: checkpoints (checkpoint.h) in a folder of its own, numbered by
// the optimizer steps taken. A stage that goes on from one is bit-identical to one that never stopped (on as many
// ranks; on another number, to rounding).
//
// Beside each stands stage.json: the checksums of the data and of the weights that the stage began with, so that it is
// not continued with others.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "trainer/checkpoint.h"
#include "tree/forest.h"

namespace ingot::trainer {

class StageCheckpoints {
 public:
  StageCheckpoints() = default;  // none are kept
  // In `root`, of a stage that finds weights of that checksum (weights::Snapshot::checksum).
  StageCheckpoints(std::string root, uint64_t weights_checksum, const std::vector<tree::CallPath>& calls);

  bool kept() const { return !root_.empty(); }
  const std::string& root() const { return root_; }
  // What stands beside every checkpoint, by name.
  const std::map<std::string, std::string>& files() const { return files_; }

  // The newest intact one; without a path, at step 0: there is none. FAILED_PRECONDITION: it is of other data or other
  // first weights; others as LatestCheckpoint.
  absl::StatusOr<CheckpointInfo> Newest() const;

 private:
  std::string root_;
  std::map<std::string, std::string> files_;
};

// Steps of the newest one in `root`; 0: there is none.
absl::StatusOr<int64_t> StageSteps(const std::string& root);

}  // namespace ingot::trainer
