// What the supervised stages train in which order, and what they report: cross entropy on the assistant's tokens of
// conversations, and DPO on pairs of conversations. Trainer runs them, with the packing, the ranks and the optimizer of
// the RL stage. Deterministic for (calls, options, seed, number of ranks). No torch.
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
  // sft/loss, sft/nll, sft/grad_norm, sft/learning_rate, sft/tokens_per_second, sft/skipped, tree/token_ratio, the
  // step's bound (tree/speedup*, perf/*bound*), perf/memory_*; of the other stage
  // dpo/loss, dpo/accuracy, dpo/margin_mean, ...; of several ranks trainer/ranks, trainer/rank_balance and
  // tree/computed_tokens
  StepMetrics metrics;
};
// Called after every step; an error ends the stage with it, once the step is saved.
using SftObserver = std::function<absl::Status(const SftReport&)>;

// Optimizer steps a stage over so many conversations takes.
int64_t SftSteps(const SftOptions& options, int64_t conversations);

// The conversations of step `step`, indices in [0, conversations): every epoch is a fresh shuffle by the seed, cut into
// batches, the last of which may be smaller.
std::vector<int64_t> SftBatch(const SftOptions& options, int64_t conversations, uint64_t seed, int64_t step);

}  // namespace ingot::trainer
