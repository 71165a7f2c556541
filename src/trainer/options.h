// Knobs of the trainer. Plain values, no torch: the configuration schema includes this header.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "kernels/numerics.h"

namespace ingot::trainer {

// AdamW and its learning-rate schedule, of one stage (RL or SFT).
struct OptimizerOptions {
  double learning_rate = 1e-4;   // peak, reached when warm-up ends; > 0
  int64_t warmup_steps = 0;      // steps of linear rise from learning_rate / warmup_steps; 0: none
  std::string decay = "cosine";  // after warm-up: cosine, linear or constant
  double min_lr_ratio = 0.1;     // of the peak, where cosine and linear end; [0, 1]
  double beta1 = 0.9;            // decay of the first moment; [0, 1)
  double beta2 = 0.95;           // decay of the second moment; [0, 1)
  double eps = 1e-8;             // added to the root of the second moment; > 0
  double weight_decay = 0.0;     // decoupled, on matrices only (norms and biases never decay); 0: off
  double grad_clip_norm = 1.0;   // greatest global gradient norm; 0: no clipping

  absl::Status Validate() const;
};

// A supervised stage before the first step: cross entropy on conversations, or DPO on pairs of them.
struct SftOptions {
  int64_t epochs = 1;              // passes over the conversations (pairs); 0: no stage unless max_steps says so
  int64_t max_steps = 0;           // optimizer steps, in as many passes as they take; 0: as many as the epochs take
  int64_t batch_size = 8;          // conversations (pairs) per optimizer step; > 0
  int64_t checkpoint_every = 500;  // optimizer steps between the stage's own checkpoints; 0: only after its last
  OptimizerOptions optimizer{.learning_rate = 1e-3};

  absl::Status Validate() const;
};

struct TrainerOptions {
  int64_t groups_per_step = 0;  // groups every batch must hold; 0: any number is taken
  int64_t group_size = 0;       // finished samples every group must hold; 0: any number is taken
  int64_t total_steps = 100;    // optimizer steps of the run: where the decay ends; > 0

  // Merged tokens per forward and backward pass, at most; > 0. A batch of more is cut at any token, and what the parts
  // share is passed on. Bounds memory; the result depends on it only by rounding.
  int64_t micro_batch_tokens = 8192;
  // A part that later ones see waits for them with its layers' histories. With recompute_prefix it keeps the keys and
  // values they see alone and is run forward twice; with checkpoint_layers every part keeps its layers' inputs alone
  // and runs each layer twice, bit-identical to keeping all.
  bool checkpoint_layers = false;
  bool recompute_prefix = false;
  // What the trainer's ranks divide: optimizer (its state, masters and reduced gradients), or layers (the parameters
  // too, each layer's gathered when it runs: less memory, more exchanges, the same bits). One rank: nothing.
  std::string sharding = "optimizer";
  // Of the weights in forward and backward passes: fp32, bf16 (gradients are added up and weights updated in fp32), or
  // model, as they come.
  std::string dtype = "model";
  // What a step may hold in all, model and optimizer included (trainer/memory.h predicts it; a step that needs more is
  // refused before it runs). 0: what the machine has left. On the CPU.
  int64_t memory_limit_mb = 0;
  int64_t logits_chunk_elements = int64_t{1} << 24;  // of the logits matrix, held at once, at most; > 0. bf16 holds
                                                     // the gradient by eight times as many beside them

  kernels::Numerics numerics = kernels::Numerics::kFast;  // against rollout's log-probs: to rounding, or to the bit

  OptimizerOptions optimizer;

  // Name of a set of values for the fields below (presets.h). Whoever reads the configuration expands it; the trainer
  // goes by the fields alone. "none": nothing to expand.
  std::string preset = "none";

  std::string objective = "cispo";  // the policy loss: cispo, ppo_clip, gspo, opmd or dpo (objective.h)
  double eps_clip_low = 1.0;        // ratios below 1 - this are clipped; >= 1: never
  double eps_clip_high = 4.0;       // ratios above 1 + this are clipped; > 0
  double dual_clip = 0.0;           // ppo_clip: a negative advantage counts at most so many times; > 1; 0: off
  double importance_cap = 0.0;      // ppo_clip: truncated importance weights, cut at this; 0: off
  double opmd_tau = 1.0;            // opmd: weight of the squared log-ratio, halved; > 0
  double dpo_beta = 0.1;            // dpo, and the stage of that name: how strongly a pair's margin is felt; > 0

  double kl_coefficient = 0.0;            // weight of the k3 estimate of KL(rollout policy || policy); 0: off
  double reference_kl_coefficient = 0.0;  // weight of the k3 estimate of KL(policy || reference policy); 0: off
  // Model folder (or checkpoint) of the reference policy, where one is needed; empty: the weights the run starts from.
  std::string reference_path;
  double entropy_coefficient = 0.0;  // weight of the policy's entropy, which the loss then rewards; 0: off

  std::string loss_aggregation = "token";  // token, sequence (per episode), prompt (per group) or constant
  int64_t loss_constant_tokens = 0;        // constant: tokens an episode's sum is divided by, whatever its length; > 0

  // What is subtracted from an episode's return: the mean of its group, leave_one_out: that of the group's other
  // samples, the mean of the batch, or none.
  std::string advantage_baseline = "mean";
  std::string advantage_normalization = "none";  // none, or divided by the standard deviation: of the group, the batch
  // What a turn is credited with: outcome, the whole return of its episode, on every sampled token of every call of it
  // (sub-agents and summaries included); or reward_to_go, what was earned at this turn and after it.
  std::string advantage_credit = "outcome";
  bool filter_zero_variance = false;  // groups without any advantage bear no loss and count in no normaliser

  std::string train_segments = "all";  // all sampled tokens, or those of the current_version, or up to a max_age
  int64_t train_segments_max_age = 0;  // max_age: versions between sampling and this step, at most
  int64_t max_skipped_steps = 3;       // in a row, of a batch that gives no finite gradient; one more stops the run
  int64_t optimizer_reset_every = 0;   // steps between fresh optimizer states; 0: never

  int64_t probe_tokens = 256;     // tokens sampled at the current version scored before each step; 0: no probe
  int64_t checkpoint_every = 20;  // steps between checkpoints; 0: only when the run ends, after its last step or before
  int64_t keep_checkpoints = 2;   // newest ones kept; > 0
  int threads = 0;                // compute threads of the training thread; 0: what the process has
  uint64_t seed = 0;              // of shuffling

  SftOptions sft;
  SftOptions dpo{.epochs = 1, .max_steps = 0, .batch_size = 8, .optimizer = {.learning_rate = 1e-5}};

  // Says which field is wrong, or which two contradict each other and why.
  absl::Status Validate() const;
  bool needs_reference() const { return objective == "dpo" || reference_kl_coefficient > 0; }

 private:
  absl::Status ValidateObjective() const;
  absl::Status ValidateAdvantages() const;
};

}  // namespace ingot::trainer
