#include "app/run/resume_point.h"

#include "trainer/checkpoints/checkpoint.h"

namespace ingot::app {

absl::StatusOr<scheduler::ResumePoint> ResumePointOf(const RunDir& dir, bool resume) {
  if (!resume) return scheduler::ResumePoint(0);
  const absl::StatusOr<trainer::CheckpointInfo> latest = trainer::LatestCheckpoint(dir.checkpoints());
  if (latest.ok()) return scheduler::ResumePoint(latest->step, latest->next_group);
  if (latest.status().code() == absl::StatusCode::kNotFound) return scheduler::ResumePoint(0);
  return latest.status();
}

}  // namespace ingot::app
