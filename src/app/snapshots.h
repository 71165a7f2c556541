// Model folders as weight snapshots.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "weights/snapshot.h"

namespace ingot::app {

// The weights of a Hugging Face model folder, as version `version`. Errors of LoadModelDir.
absl::StatusOr<std::shared_ptr<const weights::Snapshot>> LoadSnapshot(const std::string& model_dir, int64_t version);

}  // namespace ingot::app
