// Loads and saves model folders as weight snapshots.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"
#include "model/config.h"
#include "weights/snapshot.h"

namespace ingot::app {

// Loads the weights from a Hugging Face model folder as version `version`. Returns LoadModelDir's errors.
absl::StatusOr<std::shared_ptr<const weights::Snapshot>> LoadSnapshot(const std::string& model_dir, int64_t version);

// Returns random weights with this shape as version 0.
absl::StatusOr<std::shared_ptr<const weights::Snapshot>> RandomSnapshot(const model::ModelConfig& shape, uint64_t seed);

// Returns a new version that adds a PEFT folder's adapter to `base` and shares the base's memory. The scale is folded
// into the adapter's B. Returns LoadAdapter's errors.
absl::StatusOr<std::shared_ptr<const weights::Snapshot>> WithAdapter(
    const std::shared_ptr<const weights::Snapshot>& base, const model::ModelConfig& shape, const std::string& dir,
    int64_t version);

// Writes a Hugging Face model folder with these exact weights, byte for byte. The folder is complete once it contains
// config.json.
absl::Status SaveSnapshot(const std::string& model_dir, const model::ModelConfig& shape,
                          const std::shared_ptr<const weights::Snapshot>& snapshot);

}  // namespace ingot::app
