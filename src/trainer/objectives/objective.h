// A policy loss over sampled tokens: one interface, a file per objective. An objective is plain functions over doubles,
// without torch. It gives the loss and its derivative by every token's log-prob; the passes over the forest carry that
// derivative back to the weights:
//
//   dL/dweights = sum over entries e of (dL/dlogprob_e) * dlogprob_e/dweights
//
// The derivative of an entry is one number, however its forest was cut and whichever entries share its row. So the
// tokens of a sequence or a pair need not stay in one forward pass. An objective that compares them (the ratio of a
// sequence, the margin of a pair) is asked once for the whole batch, after a pass without gradients (Scope::kBatch).
//
// A SEQUENCE is an episode: all its sampled tokens that bear loss, over all its calls (turns, sub-agents, summaries).
// Its log-prob is the sum of its tokens' log-probs.
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
  int32_t chosen = 0;  // sequences
  int32_t rejected = 0;
};

// One element per sampled token that bears loss, unless said otherwise.
struct LossEntries {
  std::span<const double> logprobs;   // under the current weights
  std::span<const double> recorded;   // as the engine reported them: under the behavior policy
  std::span<const double> reference;  // under the reference weights; empty where the run has none
  std::span<const double> advantages;
  std::span<const double> weights;     // TokenWeights: over the whole unmerged batch
  std::span<const int32_t> sequences;  // in [0, sequence_count)
  int32_t sequence_count = 0;
  // per pair; empty unless the objective is dpo
  std::span<const Preference> preferences;
  // Per sequence, the sum of its tokens' weights with those that a mask left out (off_policy_mask.h); empty = none
  // were.
  std::span<const double> sequence_weights = {};
};

class Objective {
 public:
  // kToken: the loss is a sum over tokens. It may be asked for any piece of the batch; the pieces' losses are added.
  // kBatch: the loss must be asked for all entries of the batch together.
  enum class Scope { kToken, kBatch };

  virtual ~Objective() = default;
  virtual Scope scope() const { return Scope::kToken; }
  virtual bool needs_reference() const { return false; }

  // Returns the loss, and adds its derivative by each log-prob to `derivative`, an element per entry. A factor that the
  // definition holds constant (a stopped gradient) is constant in the derivative.
  virtual double Loss(const LossEntries& entries, std::span<double> derivative) const = 0;

  // Adds the metrics of the same entries.
  virtual void Tally(const LossEntries& entries, MetricSums& sums) const = 0;

  // One line for the log: the effective settings, the bounds of the clip first.
  virtual std::string Describe() const = 0;
};

// In the formulas below w_t is the weight of a token, A_t its advantage, r_t = exp(logprob_t - recorded_t) its
// importance ratio; [a] means that a is held constant.

// CISPO (MiniMax-M1, arXiv 2506.13585, eq. 4): every token keeps a gradient, even where its ratio is clipped.
//
//   loss = -sum_t w_t * [clip(r_t, 1 - eps_clip_low, 1 + eps_clip_high)] * A_t * logprob_t
//
// Tallies actor/clipfrac_low, actor/clipfrac_high, cispo/ratio_mean and cispo/ratio_max (of the unclipped ratio).
std::unique_ptr<Objective> MakeCispo(double eps_clip_low, double eps_clip_high);

// The clipped surrogate of PPO (arXiv 1707.06347, eq. 7) without a value function. GRPO (arXiv 2402.03300), Dr. GRPO
// (arXiv 2503.20783) and DAPO (arXiv 2503.14476) are this loss with other advantages, bounds and aggregations:
// presets.h.
//
//   loss = -sum_t w_t * min(r_t A_t, clip(r_t, 1 - eps_clip_low, 1 + eps_clip_high) A_t)
//
// dual_clip c > 1 (arXiv 1912.09729): where A_t < 0, the minimum is at least c A_t; 0 = off.
//
// importance_cap C > 0 (truncated importance weights): the ratio is taken to the trainer's own policy before the step.
// A constant weight makes up for the gap between that policy and the engine's. A batch gets one optimizer step, so the
// two policies are the same: r_t is 1 where it is differentiated, and the clip never acts.
//
//   loss = -sum_t w_t * [min(exp(logprob_t - recorded_t), C)] * r_t A_t,   r_t = exp(logprob_t - [logprob_t])
//
// Tallies actor/clipfrac_low and _high (tokens whose gradient the clip removed), ppo/ratio_mean and ppo/ratio_max; with
// a cap also tis/weight_mean and tis/capped_ratio.
struct PpoClipSettings {
  double eps_clip_low = 0.2;
  double eps_clip_high = 0.2;
  double dual_clip = 0;
  double importance_cap = 0;
};
std::unique_ptr<Objective> MakePpoClip(const PpoClipSettings& settings);

// SAPO (arXiv 2511.20347; verl's `sapo`): a sigmoid of the token's ratio in place of the clip. Its slope by r is 1 at
// r = 1 and falls on both sides, the faster the higher the temperature tau. So no token loses all its gradient at once.
//
//   f(r) = 4 / tau * sigmoid(tau * (r - 1)),   tau = tau_positive where A_t > 0, else tau_negative
//   loss = -sum_t w_t * f(r_t) A_t
//
// Tallies sapo/ratio_mean, sapo/ratio_max and sapo/gate_mean (of the slope by r, in [0, 1]).
std::unique_ptr<Objective> MakeSapo(double tau_positive, double tau_negative);

// GSPO (arXiv 2507.18071, eq. 5; with an advantage per token its eq. 13): one ratio s per sequence, the geometric mean
// of its tokens' ratios. REQUIRES equal weights within a sequence.
//
//   s = exp(mean over the sequence of logprob_t - recorded_t)
//   loss = -sum_t w_t * min(s A_t, clip(s, 1 - eps_clip_low, 1 + eps_clip_high) A_t)
//
// Tallies actor/clipfrac_low and _high, gspo/ratio_mean and gspo/ratio_max over sequences.
std::unique_ptr<Objective> MakeGspo(double eps_clip_low, double eps_clip_high);

// Online policy mirror descent (Kimi k1.5, arXiv 2501.12599, eq. 3), with the policy that sampled as the reference. W
// is the weight of a sequence: the sum of its tokens' weights.
//
//   d = sum over the sequence of logprob_t - recorded_t
//   loss = -sum over sequences of W * (sum_t A_t logprob_t - tau / 2 * d^2)
//
// Tallies opmd/log_ratio_mean (of d) and opmd/penalty_mean (of tau / 2 d^2).
std::unique_ptr<Objective> MakeOpmd(double tau);

// DPO (arXiv 2305.18290, eq. 7): the mean over the preferences of
//
//   -log sigmoid(beta * (m_chosen - m_rejected)),   m = sum over the sequence of logprob_t - reference_t
//
// Tallies dpo/accuracy (share of pairs with a margin above 0; a margin of exactly 0 counts half) and dpo/margin_mean.
std::unique_ptr<Objective> MakeDpo(double beta);

// Cross entropy, for supervised stages: loss = -sum_t w_t * logprob_t. Tallies sft/nll, the mean of -logprob_t.
std::unique_ptr<Objective> MakeSft();

// The values of TrainerOptions::objective.
std::vector<std::string> ObjectiveNames();

// The objective that TrainerOptions::objective names. INVALID_ARGUMENT lists the known names.
absl::StatusOr<std::unique_ptr<Objective>> MakeObjective(const TrainerOptions& options);

}  // namespace ingot::trainer
