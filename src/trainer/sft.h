// Order and reports of the supervised stages: cross entropy on the assistant's tokens of conversations, and DPO on
// pairs of conversations. Trainer runs the stages, with the packing, the ranks and the optimizer of the RL stage.
// Deterministic for (calls, options, seed, number of ranks). No torch.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/status.h"
#include "trainer/metrics.h"
#include "trainer/options.h"

namespace ingot::trainer {

struct SftReport {
  int64_t step = 0;  // from 0
  int64_t total_steps = 0;
  // Of the SFT stage: sft/loss, sft/nll, sft/grad_norm, sft/learning_rate, sft/tokens_per_second, sft/skipped. Of the
  // DPO stage: dpo/loss, dpo/accuracy, dpo/margin_mean, ... Of both: tree/token_ratio, the step's bound (tree/speedup*,
  // perf/*bound*), perf/memory_*. With several ranks also trainer/ranks, trainer/rank_balance and tree/computed_tokens.
  StepMetrics metrics;
};
// Called after every step. An error ends the stage with that error, once the step is saved.
using SftObserver = std::function<absl::Status(const SftReport&)>;

// Number of optimizer steps of a stage over `conversations` conversations (or pairs).
int64_t SftSteps(const SftOptions& options, int64_t conversations);

// The conversations of step `step`, as indices in [0, conversations). Each epoch is a new shuffle by the seed, cut into
// batches; the last batch of an epoch may be smaller.
std::vector<int64_t> SftBatch(const SftOptions& options, int64_t conversations, uint64_t seed, int64_t step);

}  // namespace ingot::trainer
