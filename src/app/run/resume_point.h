// Finds the checkpoint from which a run resumes.
#pragma once

#include "app/run/run_dir.h"
#include "base/status.h"
#include "scheduler/resume_point.h"

namespace ingot::app {

// Returns step 0 for a new run or a run without checkpoints.
absl::StatusOr<scheduler::ResumePoint> ResumePointOf(const RunDir& dir, bool resume);

}  // namespace ingot::app
