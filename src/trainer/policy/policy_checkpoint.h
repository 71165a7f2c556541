// Writes a policy to a checkpoint (checkpoint.h), on one rank, or on all ranks, each with its own parameters and state.
#pragma once

#include <map>
#include <string>

#include "base/status.h"
#include "trainer/checkpoints/checkpoint.h"
#include "trainer/parallel/ranks.h"
#include "trainer/policy/policy.h"

namespace ingot::trainer {

// Collective, after rank 0's order. Writes ROOT/step-N, with N = contents.step. `keep` and `extra_files` are as in
// WriteCheckpoint. Fills in the policy's config, parameters, and optimizer in `contents`, and the checksum of its
// snapshot unless it publishes in parts (VersionParts::checksum). Only rank 0 needs `extra_files` and the rest of
// `contents`; other ranks get them from rank 0. REQUIRES: if the policy is divided, its snapshot has been gathered.
absl::StatusOr<CheckpointInfo> SavePolicy(Policy& policy, Ranks* ranks, const std::string& root,
                                          CheckpointContents contents,
                                          const std::map<std::string, std::string>& extra_files, int64_t keep);

}  // namespace ingot::trainer
