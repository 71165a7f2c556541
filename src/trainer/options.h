// Knobs of the trainer. Plain values, no torch: the configuration schema includes this header.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

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

// Supervised warm start.
struct SftOptions {
  int64_t epochs = 1;      // passes over the conversations; 0: no SFT stage unless max_steps says so
  int64_t max_steps = 0;   // optimizer steps, at most; 0: as many as the epochs take. With epochs 0: exactly so many
  int64_t batch_size = 8;  // conversations per optimizer step; > 0
  OptimizerOptions optimizer{.learning_rate = 1e-3};

  absl::Status Validate() const;
};

struct TrainerOptions {
  int64_t groups_per_step = 0;  // groups every batch must hold; 0: any number is taken
  int64_t group_size = 0;       // finished samples every group must hold; 0: any number is taken
  int64_t total_steps = 100;    // optimizer steps of the run: where the decay ends; > 0

  // Merged tokens per forward and backward pass, at most (a single longer call is a pass of its own); > 0. Bounds
  // memory; the result depends on it only by rounding.
  int64_t micro_batch_tokens = 8192;
  int64_t logits_chunk_elements = int64_t{1} << 24;  // elements of the logits matrix held at once, at most; > 0

  OptimizerOptions optimizer;

  std::string objective = "cispo";   // the policy loss; cispo is the only one
  double eps_clip_low = 1.0;         // ratios below 1 - this are clipped; >= 1: never
  double eps_clip_high = 4.0;        // ratios above 1 + this are clipped; > 0
  double kl_coefficient = 0.0;       // weight of the k3 estimate of KL(rollout policy || policy) in the loss; 0: off
  double entropy_coefficient = 0.0;  // weight of the policy's entropy, which the loss then rewards; 0: off

  std::string loss_aggregation = "token";        // token, sequence (per episode) or prompt (per group)
  std::string advantage_baseline = "mean";       // mean of the group, or leave_one_out: mean of its other samples
  std::string advantage_normalization = "none";  // none, or divided by the standard deviation: of the group, the batch

  int64_t probe_tokens = 256;    // tokens sampled at the current version scored before each step; 0: no probe
  int64_t checkpoint_every = 0;  // steps between checkpoints; 0: only after the last step
  int64_t keep_checkpoints = 2;  // newest ones kept; > 0
  int threads = 0;               // compute threads of the training thread; 0: what the process has
  uint64_t seed = 0;             // of shuffling

  SftOptions sft;

  absl::Status Validate() const;
};

}  // namespace ingot::trainer
