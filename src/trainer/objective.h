// A loss over sampled tokens: one interface, a file per objective. An objective sees the loss entries of one piece of
// the batch exactly as if each call had been run alone; that several entries share a row is autograd's business, which
// adds up their gradients. Immutable, thread safe.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <span>

#include "base/status.h"
#include "trainer/metrics.h"
#include "trainer/options.h"

namespace ingot::trainer {

// One element per sampled token. The pieces' losses are added: the weights are those of the whole batch.
struct LossEntries {
  at::Tensor logprobs;    // [E] under the current weights; carries autograd history
  at::Tensor recorded;    // [E] as the engine reported them
  at::Tensor advantages;  // [E]
  at::Tensor weights;     // [E]
};

class Objective {
 public:
  virtual ~Objective() = default;
  // Scalar.
  virtual at::Tensor Loss(const LossEntries& entries) const = 0;
  // Adds the same entries to what the step reports.
  virtual void Tally(std::span<const double> logprobs, std::span<const double> recorded, MetricSums& sums) const = 0;
};

// CISPO (MiniMax-M1, arXiv 2506.13585, eq. 4): the importance ratio is clipped and held constant, so that every token
// keeps a gradient.
//
//   loss = -sum_t weight_t * stopgrad(clip(r_t, 1 - eps_clip_low, 1 + eps_clip_high)) * A_t * logprob_t
//   r_t  = exp(logprob_t - recorded_t)
//
// Tallies actor/clipfrac_low, actor/clipfrac_high, cispo/ratio_mean and cispo/ratio_max (of the unclipped ratio).
std::unique_ptr<Objective> MakeCispo(double eps_clip_low, double eps_clip_high);

// Cross entropy: loss = -sum_t weight_t * logprob_t. Tallies sft/nll, its unweighted mean.
std::unique_ptr<Objective> MakeSft();

// By TrainerOptions::objective.
absl::StatusOr<std::unique_ptr<Objective>> MakeObjective(const TrainerOptions& options);

}  // namespace ingot::trainer
