// Options of the trainer. Plain values, no torch: the configuration schema includes this header.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "base/status.h"
#include "kernels/numerics.h"

namespace ingot::trainer {

// AdamW and its learning-rate schedule, for one stage (RL or SFT).
struct OptimizerOptions {
  double learning_rate = 1e-4;   // peak, reached when warm-up ends; > 0
  int64_t warmup_steps = 0;      // steps of linear rise from learning_rate / warmup_steps; 0 = no warm-up
  std::string decay = "cosine";  // after warm-up: cosine, linear or constant
  double min_lr_ratio = 0.1;     // final rate of cosine and linear, over the peak; [0, 1]
  double beta1 = 0.9;            // decay of the first moment; [0, 1)
  double beta2 = 0.95;           // decay of the second moment; [0, 1)
  double eps = 1e-8;             // added to the root of the second moment; > 0
  double weight_decay = 0.0;     // decoupled, on matrices only (norms and biases never decay); 0 = off
  double grad_clip_norm = 1.0;   // greatest global gradient norm; 0 = no clipping

  absl::Status Validate() const;
};

// A supervised stage before the first step: cross entropy on conversations, or DPO on pairs of them.
struct SftOptions {
  int64_t epochs = 1;              // passes over the conversations (pairs); 0 = no stage, unless max_steps is set
  int64_t max_steps = 0;           // optimizer steps, over as many passes as needed; 0 = as `epochs` says
  int64_t batch_size = 8;          // conversations (pairs) per optimizer step; > 0
  int64_t checkpoint_every = 500;  // optimizer steps between the stage's checkpoints; 0 = only after the last
  OptimizerOptions optimizer{.learning_rate = 1e-3};

  absl::Status Validate() const;
};

// Bounds of a step, measured after the update (trust_region.h). The measure is KL(policy before || policy after) over
// the vocabulary, in nats, at sampled tokens of calls that a seed of the step draws. A step past a bound is halved, and
// finally undone.
struct TrustRegionOptions {
  double max_mean = 0;      // greatest mean over the positions; 0 = no bound
  double max_position = 0;  // greatest value at one position; 0 = no bound
  double share = 0.1;       // share of the batch's merged rows whose calls are measured; (0, 1]; 1 = all calls
  int64_t places = 4;       // number of places in the batch from which calls are taken, unless all are; > 0
  int64_t memory_mb = 128;  // bound per rank of the policies before the step, a vocabulary for each row; > 0
  int64_t halvings = 6;     // number of times that a step is halved before it is undone; >= 0

  bool on() const { return max_mean > 0 || max_position > 0; }
  // The most rows whose policies can be held, `row_bytes` each; at least 1.
  int64_t MostRows(int64_t row_bytes) const { return std::max<int64_t>(1, (memory_mb << 20) / row_bytes); }
  absl::Status Validate() const;
};

// Tokens that the policy loss leaves out, with every objective (off_policy_mask.h). Bounds are of the importance
// ratio exp(log-prob under the current weights - recorded log-prob).
struct OffPolicyMaskOptions {
  double token_low = 0;      // least ratio of a token; [0, 1); 0 = no bound
  double token_high = 0;     // greatest ratio of a token; > 1; 0 = no bound
  double sequence_low = 0;   // least geometric mean of a sequence's ratios; [0, 1); 0 = no bound
  double sequence_high = 0;  // greatest geometric mean of a sequence's ratios; > 1; 0 = no bound
  // Greatest mean of recorded - current log-prob of a sequence whose advantage is negative, in nats; 0 = no bound.
  double opsm_delta = 0;

  bool of_tokens() const { return token_low > 0 || token_high > 0; }
  bool of_sequences() const { return sequence_low > 0 || sequence_high > 0 || opsm_delta > 0; }
  bool on() const { return of_tokens() || of_sequences(); }
  absl::Status Validate() const;
};

struct TrainerOptions {
  int64_t groups_per_step = 0;  // groups that every batch must hold; 0 = any number
  int64_t group_size = 0;       // finished samples that every group must hold; 0 = any number
  int64_t total_steps = 100;    // optimizer steps of the run, where the decay ends; > 0

  // Greatest number of merged tokens per forward and backward pass; > 0. A larger batch is cut, at any token, and the
  // parts pass on the keys and values of shared prefixes. Bounds memory; changes the result only by rounding.
  int64_t micro_batch_tokens = 8192;
  // A part that later parts see waits for them with its layers' histories. With recompute_prefix it holds only the keys
  // and values of its exports, and runs forward twice. With checkpoint_layers every part holds only its layers' inputs
  // and runs each layer twice; the result is bit-identical.
  bool checkpoint_layers = false;
  bool recompute_prefix = false;
  // The state that ranks divide. optimizer: moments, masters and reduced gradients. layers: the parameters too; a
  // layer's are gathered when it runs (less memory, more exchanges, the same bits). No effect with one rank.
  std::string sharding = "optimizer";
  // Type of the weights in forward and backward passes: fp32; bf16 (gradients are added up and weights updated in
  // fp32); or model, the type of the loaded weights.
  std::string dtype = "model";
  // Greatest memory of a step in MB, model and optimizer included; CPU only. trainer/pass/memory.h predicts it, and a
  // step that needs more fails before it runs. 0 = the machine's free memory.
  int64_t memory_limit_mb = 0;
  // Greatest number of elements of the logits matrix held at once; > 0. A bf16 model also holds the gradient by eight
  // times as many.
  int64_t logits_chunk_elements = int64_t{1} << 24;

  // Agreement with rollout's log-probs: fast = up to rounding, exact = bit for bit
  kernels::Numerics numerics = kernels::Numerics::kFast;

  OptimizerOptions optimizer;

  // Name of a set of values for the fields below (presets.h). The reader of the configuration expands it; the trainer
  // uses only the fields. "none" = nothing to expand.
  std::string preset = "none";

  std::string objective = "cispo";  // the policy loss: cispo, ppo_clip, gspo, opmd, dpo or sapo (objective.h)
  double eps_clip_low = 1.0;        // ratios below 1 - this are clipped; >= 1 = never
  double eps_clip_high = 4.0;       // ratios above 1 + this are clipped; > 0
  double dual_clip = 0.0;           // ppo_clip: bounds the factor of a negative advantage; > 1; 0 = off
  double importance_cap = 0.0;      // ppo_clip: bound of the truncated importance weights; 0 = off
  double opmd_tau = 1.0;            // opmd: tau / 2 is the weight of the squared log-ratio; > 0
  double sapo_tau_positive = 1.0;   // sapo: temperature of the gate where the advantage is positive; > 0
  double sapo_tau_negative = 1.05;  // sapo: temperature of the gate elsewhere; > 0
  double dpo_beta = 0.1;            // dpo, and the stage of that name: factor of a pair's margin; > 0

  OffPolicyMaskOptions off_policy_mask;

  double kl_coefficient = 0.0;            // weight of the estimate of KL(rollout policy || policy); 0 = off
  double reference_kl_coefficient = 0.0;  // weight of the estimate of KL(policy || reference policy); 0 = off
  std::string kl_kind = "k3";             // the estimate of both: k1, k2, k3 or abs (step_loss.h)
  // Model folder (or checkpoint) of the reference policy, where one is needed; empty = the start weights of the run.
  std::string reference_path;
  // Steps between updates of the reference policy to the current policy; 0 = it stays. Not with sharding
  // layers, where no rank has the whole policy.
  int64_t reference_update_every = 0;
  double entropy_coefficient = 0.0;  // weight of the policy's entropy, which the loss rewards; 0 = off

  std::string loss_aggregation = "token";  // token, sequence (per episode), prompt (per group) or constant
  int64_t loss_constant_tokens = 0;        // constant: divisor of an episode's sum, whatever its length; > 0

  // Baseline that is subtracted from an episode's return: mean (of its group), leave_one_out (mean of the group's other
  // samples), batch (mean of the batch), length (mean of its group, weighted by the samples' lengths), or none.
  std::string advantage_baseline = "mean";
  // division by the standard deviation of the group or the batch, by the group's mean return, or none; terms: each term
  // of the reward by its own deviation in the group, and then their weighted sum by the batch's
  std::string advantage_normalization = "none";
  // Credit of a turn. outcome: the whole return of its episode, on every sampled token of every call (sub-agents and
  // summaries included). reward_to_go: the rewards of this turn and of later ones.
  std::string advantage_credit = "outcome";
  double turn_discount = 1.0;  // reward_to_go: share of a reward that counts one turn earlier; [0, 1]; 1 = all of it
  // Advantage of a trunk, the mean of its leaves': nested = compared with the whole group, siblings = with each other.
  std::string advantage_branches = "nested";
  // The returns that are compared within a group. episode: its episodes' returns. role: each role's (Call.role) returns
  // separately, so that the players of one episode have their own advantages.
  std::string advantage_groups = "episode";
  bool filter_zero_variance = false;  // groups without any advantage bear no loss and count in no normalizer

  std::string train_segments = "all";  // sampled tokens that bear loss: all, current_version, max_age
  int64_t train_segments_max_age = 0;  // max_age: greatest number of versions between sampling and this step
  // Calls that ended at a length limit (FINISH_LENGTH): train = as others; mask_call = that call bears no loss;
  // mask_episode = no call of its episode does. Their rewards still count in the baseline.
  std::string truncated = "train";
  int64_t max_skipped_steps = 3;      // greatest number of skipped steps in a row; one more stops the run
  int64_t optimizer_reset_every = 0;  // steps between resets of the optimizer's state; 0 = never

  // Of models with experts. The load-balancing term's coefficient: 0 = no term. The step by which a bias without a loss
  // moves (DeepSeek-V3); 0 = it stays.
  double expert_balance = 0;
  double expert_bias_rate = 0;
  bool replay_routes = false;  // rows that bear loss take the experts that the engine recorded (recorded_routes.h)

  TrustRegionOptions trust_region;

  // Steps between measurements of the variance of the update (update_variance.h); 0 = none.
  int64_t update_variance_every = 20;
  int64_t probe_tokens = 256;     // tokens of the current version that are scored before each step; 0 = no probe
  int64_t checkpoint_every = 20;  // steps between checkpoints; 0 = only when the run ends
  int64_t keep_checkpoints = 2;   // number of newest checkpoints to keep; > 0
  // Also keep checkpoints whose step is a multiple of this, including the start's; a multiple of checkpoint_every.
  // 0 = none.
  int64_t keep_every = 0;
  int threads = 0;    // compute threads of the training thread; 0 = the process's setting
  uint64_t seed = 0;  // of shuffling

  SftOptions sft;
  SftOptions dpo{.epochs = 1, .max_steps = 0, .batch_size = 8, .optimizer = {.learning_rate = 1e-5}};

  // INVALID_ARGUMENT names a field that is wrong, or two that contradict each other, and says why.
  absl::Status Validate() const;
  bool by_terms() const { return advantage_normalization == "terms"; }
  // A sample is compared within its group.
  bool within_group() const { return advantage_baseline != "batch" && advantage_baseline != "none"; }
  bool by_role() const { return advantage_groups == "role"; }
  bool needs_reference() const { return objective == "dpo" || reference_kl_coefficient > 0; }

 private:
  absl::Status ValidateObjective() const;
  absl::Status ValidateAdvantages() const;
};

}  // namespace ingot::trainer
