// Trains a draft head on conversations before the first version, with a frozen policy and exact KL (DraftOptions::loss
// kl). A run that stops here repeats the warm-up, which is deterministic and changes only the head.
#pragma once

#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "trainer/draft/draft_trainer.h"
#include "trainer/options.h"
#include "trainer/policy/policy.h"
#include "trainer/sft.h"
#include "tree/forest.h"

namespace ingot::trainer {

// Runs options.draft.warmup_steps steps on batches of options.sft.batch_size conversations, in the order of the stage
// `sft`. Reports draft/loss, draft/overlap, and draft/grad_norm. Returns PrepareSft's errors, and the observer's error.
absl::Status WarmUpDraft(const TrainerOptions& options, const Policy& policy, DraftTrainer& draft,
                         const std::vector<tree::CallPath>& calls, const SftObserver& observer);

}  // namespace ingot::trainer
