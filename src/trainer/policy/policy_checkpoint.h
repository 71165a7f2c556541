// Writes a policy into a checkpoint (checkpoint.h): by one rank, or by all together, each its own parameters and state.
#pragma once

#include <map>
#include <string>

#include "base/status.h"
#include "trainer/checkpoints/checkpoint.h"
#include "trainer/parallel/ranks.h"
#include "trainer/policy/policy.h"

namespace ingot::trainer {

// Together, after rank 0's order. Writes ROOT/step-N, N = contents.step; `keep` and `extra_files` as WriteCheckpoint.
// `contents` without what the policy knows: its config, parameters and optimizer are filled in here, and the checksum
// of its snapshot, unless it publishes in parts (VersionParts::checksum). Only rank 0 needs `extra_files` and the rest
// of `contents`; other ranks get what rank 0 has. If the policy is divided, its snapshot has been gathered.
absl::StatusOr<CheckpointInfo> SavePolicy(Policy& policy, Ranks* ranks, const std::string& root,
                                          CheckpointContents contents,
                                          const std::map<std::string, std::string>& extra_files, int64_t keep);

}  // namespace ingot::trainer
