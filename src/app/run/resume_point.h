// The checkpoint from which a run in a folder continues.
#pragma once

#include "app/run/run_dir.h"
#include "base/status.h"
#include "scheduler/resume_point.h"

namespace ingot::app {

// Step 0 = a new run, or one without a checkpoint.
absl::StatusOr<scheduler::ResumePoint> ResumePointOf(const RunDir& dir, bool resume);

}  // namespace ingot::app
