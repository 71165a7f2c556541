// Copies a checkpoint to another step, so that a run continues from earlier weights under a new version.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "trainer/checkpoints/checkpoint.h"

namespace ingot::trainer {

// Writes ROOT/step-N with the files of the checkpoint `from`, which is verified first. Only the step in state.json
// differs. The files are hard links if the file system has them, because a checkpoint's files never change. Replaces an
// existing ROOT/step-N. A crash leaves no step-N or a complete one. Returns DATA_LOSS if `from` is damaged or missing,
// and UNAVAILABLE, naming the path, if the copy cannot be written.
absl::StatusOr<CheckpointInfo> CopyCheckpoint(const std::string& from, const std::string& root, int64_t step);

}  // namespace ingot::trainer
