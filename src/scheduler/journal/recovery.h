// Recovers a run. The journal shows which groups are rewarded and consumed. The pool's episodes show which samples in
// other groups are done.
//
// A sample is done if its latest attempt is FINISHED in the pool, whether or not that was reported. An attempt that is
// open in the pool is running, and its gateway will report when it ends. So the run makes the same decisions as before
// and does not hand out running samples again.
//
// If the entire run restarts, no client is left to end the open attempts. Recovery ends them in the pool: as FINISHED
// if their own reward was posted, since they have been judged, and otherwise as FENCED. Fenced samples are retried.
#pragma once

#include <optional>

#include "base/clock.h"
#include "base/status.h"
#include "datapool/client.h"
#include "scheduler/journal/journaled_run.h"
#include "scheduler/resume_point.h"

namespace ingot::scheduler {

// Restores `run` from the journal and episodes in `pool`. `resume` and the errors are as in Scheduler::Recover. Blocks
// on the pool. REQUIRES: `run` is new.
absl::Status RecoverRun(datapool::Client& pool, const base::Clock& clock, const std::optional<ResumePoint>& resume,
                        JournaledRun& run);

}  // namespace ingot::scheduler
