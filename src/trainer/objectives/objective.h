// Defines policy losses over sampled tokens, with one file per objective. An objective is a set of plain functions over
// doubles, without torch. It returns the loss and its derivative with respect to every token's log-prob. The forest
// passes propagate that derivative back to the weights:
//
//   dL/dweights = sum over entries e of (dL/dlogprob_e) * dlogprob_e/dweights
//
// An entry's derivative is a single number. It does not depend on how the forest was split or on the entries that share
// its row, so the tokens in a sequence or pair can be in different forward passes. An objective that combines tokens (a
// sequence's ratio, a pair's margin) is evaluated once for the whole batch, after a pass without gradients
// (Scope::kBatch).
//
// A SEQUENCE is an episode: all of its loss-bearing sampled tokens, over all of its calls (turns, sub-agents,
// summaries). Its log-prob is the sum of its tokens' log-probs.
//
// Objectives are immutable and thread safe.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "trainer/metrics.h"
#include "trainer/options.h"

namespace ingot::trainer {

// A pair of sequences: `chosen` is preferred to `rejected`.
struct Preference {
  int32_t chosen = 0;  // sequence indices
  int32_t rejected = 0;
};

// One element per loss-bearing sampled token, unless noted otherwise.
struct LossEntries {
  std::span<const double> logprobs;   // under the current weights
  std::span<const double> recorded;   // as the engine reported them, under the behavior policy
  std::span<const double> reference;  // under the reference weights; empty = the run has none
  std::span<const double> advantages;
  std::span<const double> weights;     // TokenWeights, over the whole unmerged batch
  std::span<const int32_t> sequences;  // in [0, sequence_count)
  int32_t sequence_count = 0;
  // One element per pair. Empty unless the objective is dpo.
  std::span<const Preference> preferences;
  // Per sequence: the sum of its tokens' weights, including the tokens that a mask removed (off_policy_mask.h). Empty =
  // no token was removed.
  std::span<const double> sequence_weights = {};
  // The index of the token's call in the batch. Only for the `custom` objective.
  std::span<const int32_t> calls = {};
};

class Objective {
 public:
  // kToken: the loss is a sum over tokens. It may be evaluated on any subset of the batch, and the losses of disjoint
  // subsets add up. kBatch: the loss must be evaluated on all entries of the batch together.
  enum class Scope { kToken, kBatch };

  virtual ~Objective() = default;
  virtual Scope scope() const { return Scope::kToken; }
  virtual bool needs_reference() const { return false; }

  // Returns the loss and adds its derivative with respect to each log-prob to `derivative`, which has one element per
  // entry. A factor that the definition holds constant (stop-gradient) is also constant in the derivative.
  virtual double Loss(const LossEntries& entries, std::span<double> derivative) const = 0;

  // Adds the metrics for these entries.
  virtual void Tally(const LossEntries& entries, MetricSums& sums) const = 0;

  // Returns the effective settings as one line for the log, starting with the clip bounds.
  virtual std::string Describe() const = 0;
};

// In the formulas below, w_t is the weight of a token, A_t its advantage, and r_t = exp(logprob_t - recorded_t) its
// importance ratio. [a] means that a is held constant.

// CISPO (MiniMax-M1, arXiv 2506.13585, eq. 4). Every token keeps a gradient, even if its ratio is clipped.
//
//   loss = -sum_t w_t * [clip(r_t, 1 - eps_clip_low, 1 + eps_clip_high)] * A_t * logprob_t
//
// Tallies actor/clipfrac_low, actor/clipfrac_high, and, for the unclipped ratio, cispo/ratio_mean and cispo/ratio_max.
std::unique_ptr<Objective> MakeCispo(double eps_clip_low, double eps_clip_high);

// The clipped surrogate of PPO (arXiv 1707.06347, eq. 7) without a value function. GRPO (arXiv 2402.03300), Dr. GRPO
// (arXiv 2503.20783), and DAPO (arXiv 2503.14476) are this loss with different advantages, bounds, and aggregations.
// See presets.h.
//
//   loss = -sum_t w_t * min(r_t A_t, clip(r_t, 1 - eps_clip_low, 1 + eps_clip_high) A_t)
//
// dual_clip c > 1 (arXiv 1912.09729): if A_t < 0, the minimum is at least c A_t. 0 = off.
//
// importance_cap C > 0 (truncated importance weights): the ratio is relative to the trainer's own policy before the
// step, and a constant weight corrects for the gap between that policy and the engine's. A batch gets one optimizer
// step, so both are the same policy: r_t is 1 when it is differentiated, and the clip has no effect.
//
//   loss = -sum_t w_t * [min(exp(logprob_t - recorded_t), C)] * r_t A_t,   r_t = exp(logprob_t - [logprob_t])
//
// Tallies actor/clipfrac_low and _high (tokens that lost their gradient to the clip), ppo/ratio_mean, and
// ppo/ratio_max. With a cap, also tis/weight_mean and tis/capped_ratio.
struct PpoClipSettings {
  double eps_clip_low = 0.2;
  double eps_clip_high = 0.2;
  double dual_clip = 0;
  double importance_cap = 0;
};
std::unique_ptr<Objective> MakePpoClip(const PpoClipSettings& settings);

// SAPO (arXiv 2511.20347; verl's `sapo`): replaces the clip with a sigmoid of the token's ratio. The slope with respect
// to r is 1 at r = 1 and falls on both sides, faster for a higher temperature tau. So a token never loses its whole
// gradient at once.
//
//   f(r) = 4 / tau * sigmoid(tau * (r - 1)),   tau = tau_positive where A_t > 0, else tau_negative
//   loss = -sum_t w_t * f(r_t) A_t
//
// Tallies sapo/ratio_mean, sapo/ratio_max, and sapo/gate_mean (the slope with respect to r, in [0, 1]).
std::unique_ptr<Objective> MakeSapo(double tau_positive, double tau_negative);

// GSPO (arXiv 2507.18071, eq. 5; with per-token advantages, eq. 13). Each sequence has one ratio s, the geometric mean
// of its tokens' ratios. REQUIRES: equal weights within a sequence.
//
//   s = exp(mean over the sequence of logprob_t - recorded_t)
//   loss = -sum_t w_t * min(s A_t, clip(s, 1 - eps_clip_low, 1 + eps_clip_high) A_t)
//
// Tallies actor/clipfrac_low and _high, and gspo/ratio_mean and gspo/ratio_max over sequences.
std::unique_ptr<Objective> MakeGspo(double eps_clip_low, double eps_clip_high);

// Online policy mirror descent (Kimi k1.5, arXiv 2501.12599, eq. 3). The reference is the policy that sampled the
// tokens. W is a sequence's weight, the sum of its tokens' weights.
//
//   d = sum over the sequence of logprob_t - recorded_t
//   loss = -sum over sequences of W * (sum_t A_t logprob_t - tau / 2 * d^2)
//
// Tallies opmd/log_ratio_mean (d) and opmd/penalty_mean (tau / 2 d^2).
std::unique_ptr<Objective> MakeOpmd(double tau);

// DPO (arXiv 2305.18290, eq. 7): the mean over the preferences of
//
//   -log sigmoid(beta * (m_chosen - m_rejected)),   m = sum over the sequence of logprob_t - reference_t
//
// Tallies dpo/accuracy (fraction of pairs with a margin above 0; a margin of 0 counts half) and dpo/margin_mean.
std::unique_ptr<Objective> MakeDpo(double beta);

// Cross entropy, for supervised stages: loss = -sum_t w_t * logprob_t. Tallies sft/nll, the mean of -logprob_t.
std::unique_ptr<Objective> MakeSft();

// Returns the valid values of TrainerOptions::objective.
std::vector<std::string> ObjectiveNames();

// Creates the `custom` objective. Callers that link torch pass MakeCustomObjective (custom_loss/custom_objective.h).
using CustomMaker = absl::StatusOr<std::unique_ptr<Objective>> (*)(const TrainerOptions& options);

// Creates the objective named by TrainerOptions::objective. Returns INVALID_ARGUMENT, with the known names, if the name
// is unknown, or if it is `custom` and the `custom` argument is null.
absl::StatusOr<std::unique_ptr<Objective>> MakeObjective(const TrainerOptions& options, CustomMaker custom = nullptr);

}  // namespace ingot::trainer
