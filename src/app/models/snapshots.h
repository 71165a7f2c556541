// Model folders as weight snapshots.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"
#include "model/config.h"
#include "weights/snapshot.h"

namespace ingot::app {

// The weights of a Hugging Face model folder, as version `version`. Errors of LoadModelDir.
absl::StatusOr<std::shared_ptr<const weights::Snapshot>> LoadSnapshot(const std::string& model_dir, int64_t version);

// Random weights of this shape, as version 0.
absl::StatusOr<std::shared_ptr<const weights::Snapshot>> RandomSnapshot(const model::ModelConfig& shape, uint64_t seed);

// `base` with the adapter of a PEFT folder, as a new version that shares the base's memory. The adapter's B holds its
// scale. Errors of LoadAdapter.
absl::StatusOr<std::shared_ptr<const weights::Snapshot>> WithAdapter(
    const std::shared_ptr<const weights::Snapshot>& base, const model::ModelConfig& shape, const std::string& dir,
    int64_t version);

// Writes such a folder with exactly these bytes as its weights; it is complete once it has a config.json.
absl::Status SaveSnapshot(const std::string& model_dir, const model::ModelConfig& shape,
                          const std::shared_ptr<const weights::Snapshot>& snapshot);

}  // namespace ingot::app
