// Recovery of a run: the journal shows which groups are rewarded and consumed, the pool's episodes show which samples
// of the other groups are done.
//
// A sample is done if its largest attempt is FINISHED in the pool, reported or not. An attempt that is open there is
// running, and its gateway reports its end. So the run makes the same decisions as before, and hands out no sample that
// is running.
//
// When the whole run starts again, no client is left to end the open attempts. They end in the pool: as FINISHED if
// their own reward was posted, because that is a judgement, and otherwise as FENCED. Fenced samples are tried again.
#pragma once

#include <optional>

#include "base/clock.h"
#include "base/status.h"
#include "datapool/client.h"
#include "scheduler/journal/journaled_run.h"
#include "scheduler/resume_point.h"

namespace ingot::scheduler {

// Restores `run` from the journal and the episodes of `pool`. `resume`, and errors: as of Scheduler::Recover. Blocks
// for the pool. REQUIRES: `run` is new.
absl::Status RecoverRun(datapool::Client& pool, const base::Clock& clock, const std::optional<ResumePoint>& resume,
                        JournaledRun& run);

}  // namespace ingot::scheduler
