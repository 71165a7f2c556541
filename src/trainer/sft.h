// The supervised stages, with the packing and the optimizer of the RL stage: cross entropy on the assistant's tokens of
// conversations, and DPO on pairs of conversations. Deterministic for (calls, options, seed).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "model/transformer.h"
#include "trainer/metrics.h"
#include "trainer/options.h"
#include "tree/forest.h"

namespace ingot::trainer {

struct SftReport {
  int64_t step = 0;  // from 0
  int64_t total_steps = 0;
  // sft/loss, sft/nll, sft/grad_norm, sft/learning_rate, sft/tokens_per_second, tree/token_ratio; of the other stage
  // dpo/loss, dpo/accuracy, dpo/margin_mean, ...
  StepMetrics metrics;
};
// Called after every step; an error ends the stage with it, once the step is saved.
using SftObserver = std::function<absl::Status(const SftReport&)>;

// Optimizer steps a stage over so many conversations takes.
int64_t SftSteps(const SftOptions& options, int64_t conversations);

// The conversations of step `step`, indices in [0, conversations): every epoch is a fresh shuffle by the seed, cut into
// batches, the last of which may be smaller.
std::vector<int64_t> SftBatch(const SftOptions& options, int64_t conversations, uint64_t seed, int64_t step);

// Train the model's parameters in place. INVALID_ARGUMENT as PrepareSft; INTERNAL: loss or gradient is not finite, with
// the conversations at fault. May throw c10::Error. A conversation is the calls of one `episode`; a pair the calls of
// episodes 2i (chosen) and 2i + 1. `reference` gives dpo's reference log-probs and is not changed. `checkpoints`: the
// stage's folder (stage_checkpoints.h); only steps that it has not yet taken are observed.
absl::Status RunDpoStage(const model::Transformer& model, const model::Transformer& reference,
                         const TrainerOptions& options, const std::vector<tree::CallPath>& calls,
                         const base::Clock& clock, const SftObserver& observer, const std::string& checkpoints);
absl::Status RunSftStage(const model::Transformer& model, const TrainerOptions& options,
                         const std::vector<tree::CallPath>& calls, const base::Clock& clock,
                         const SftObserver& observer, const std::string& checkpoints);

}  // namespace ingot::trainer
