// Defines the order and reports of the supervised stages: cross entropy on the assistant's tokens in conversations, and
// DPO on pairs of conversations. Trainer runs the stages, with the same packing, ranks, and optimizer as the RL stage.
// Deterministic for the same calls, options, seed, and number of ranks. Does not use torch.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/status.h"
#include "trainer/metrics.h"
#include "trainer/options.h"

namespace ingot::trainer {

struct SftReport {
  int64_t step = 0;  // starts at 0
  int64_t total_steps = 0;
  // SFT stage: sft/loss, sft/nll, sft/grad_norm, sft/learning_rate, sft/tokens_per_second, sft/skipped. DPO stage:
  // dpo/loss, dpo/accuracy, dpo/margin_mean, ... Both: tree/token_ratio, the step's bound (tree/speedup*,
  // perf/*bound*), perf/memory_*. With several ranks, also trainer/ranks, trainer/rank_balance, and
  // tree/computed_tokens.
  StepMetrics metrics;
};
// Called after every step. If it returns an error, the stage saves the step and returns that error.
using SftObserver = std::function<absl::Status(const SftReport&)>;

// Returns the number of optimizer steps in a stage over `conversations` conversations (or pairs).
int64_t SftSteps(const SftOptions& options, int64_t conversations);

// Returns the conversations for step `step`, as indices in [0, conversations). Each epoch is reshuffled with the seed
// and split into batches. The last batch in an epoch may be smaller.
std::vector<int64_t> SftBatch(const SftOptions& options, int64_t conversations, uint64_t seed, int64_t step);

}  // namespace ingot::trainer
