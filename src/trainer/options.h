// Defines the trainer's options as plain values without torch. options.cc declares their keys, descriptions, bounds,
// and choices.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "base/status.h"
#include "kernels/numerics.h"
#include "trainer/draft/draft_options.h"

namespace ingot::base {
class Schema;
}

namespace ingot::trainer {

// AdamW and its learning-rate schedule, for one stage (RL or SFT).
struct OptimizerOptions {
  double learning_rate = 1e-4;
  int64_t warmup_steps = 0;  // the learning rate starts at learning_rate / warmup_steps
  std::string decay = "cosine";
  double min_lr_ratio = 0.1;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0.0;
  double grad_clip_norm = 1.0;
};

// Options for a supervised stage before the first RL step: cross entropy on conversations, or DPO on pairs of them.
struct SftOptions {
  int64_t epochs = 1;
  int64_t max_steps = 0;
  int64_t batch_size = 8;
  int64_t checkpoint_every = 500;
  OptimizerOptions optimizer{.learning_rate = 1e-3};
};

// Bounds on a step, measured after the update (trust_region.h). The measure is KL(policy before || policy after) over
// the vocabulary, in nats, at sampled tokens of randomly chosen calls. The choice is seeded per step. A step that
// exceeds a bound is halved up to `halvings` times and, if it still exceeds the bound, undone.
struct TrustRegionOptions {
  double max_mean = 0;
  double max_position = 0;
  double share = 0.1;
  int64_t places = 4;
  int64_t memory_mb = 128;
  int64_t halvings = 6;

  bool on() const { return max_mean > 0 || max_position > 0; }
  // Returns how many rows' policies fit in memory_mb, at `row_bytes` each. At least 1.
  int64_t MaxRows(int64_t row_bytes) const { return std::max<int64_t>(1, (memory_mb << 20) / row_bytes); }
};

// Tokens that the policy loss excludes under every objective (off_policy_mask.h). Bounds apply to the importance ratio
// exp(log-prob under the current weights - recorded log-prob). 0 = no bound.
struct OffPolicyMaskOptions {
  double token_low = 0;
  double token_high = 0;
  double sequence_low = 0;
  double sequence_high = 0;
  double opsm_delta = 0;

  bool of_tokens() const { return token_low > 0 || token_high > 0; }
  bool of_sequences() const { return sequence_low > 0 || sequence_high > 0 || opsm_delta > 0; }
  bool on() const { return of_tokens() || of_sequences(); }
};

// A policy loss in Python, for the `custom` objective (custom_loss/custom_objective.h).
struct CustomLossOptions {
  // "FILE.py:NAME", where FILE may be relative to the directory where ingot was started, or "PACKAGE.MODULE:NAME".
  std::string function;
  std::string scope = "call";
  // Set at the start of a run, not by a key: the function's trace (app/run/loss_trace.h).
  std::string graph;
};

struct TrainerOptions {
  // Set by the scheduler's options, the run's seed, numerics, compute, and placement, not by keys of `trainer`.
  int64_t groups_per_step = 0;  // number of groups in every batch; 0 = any number
  int64_t group_size = 0;       // finished samples in every group; 0 = any number
  int64_t total_steps = 100;    // the run's optimizer steps, at which the decay ends; > 0
  kernels::Numerics numerics = kernels::Numerics::kFast;
  int threads = 0;             // compute threads for the training thread; 0 = the process default
  uint64_t seed = 0;           // for shuffling
  bool shares_device = false;  // with engines, in turns (cluster.placement): every step returns the memory that it used

  // A larger batch is split, possibly in the middle of a sequence. The parts share the keys and values of common
  // prefixes.
  int64_t micro_batch_tokens = 8192;
  // A part that later parts need keeps its activations until their backward passes are done. With recompute_prefix, it
  // keeps only the keys and values that it exports and runs its forward pass twice. With checkpoint_layers, every part
  // keeps only its layers' inputs and runs each layer twice. Results are bit-identical.
  bool checkpoint_layers = false;
  bool recompute_prefix = false;
  std::string sharding = "optimizer";  // no effect with one rank
  std::string dtype = "model";
  // CPU only. trainer/pass/memory.h predicts each step's memory. A step that needs more than this fails before it runs.
  int64_t memory_limit_mb = 0;
  int64_t logits_chunk_elements = int64_t{1} << 24;

  OptimizerOptions optimizer;

  // A named set of values for the fields below (presets.h). The configuration reader expands it; the trainer reads only
  // the fields.
  std::string preset = "none";

  std::string objective = "cispo";  // objectives/objective.h
  double eps_clip_low = 1.0;
  double eps_clip_high = 4.0;
  double dual_clip = 0.0;
  double importance_cap = 0.0;
  double opmd_tau = 1.0;
  double sapo_tau_positive = 1.0;
  double sapo_tau_negative = 1.05;
  double dpo_beta = 0.1;  // also for the `dpo` stage
  CustomLossOptions custom;

  OffPolicyMaskOptions off_policy_mask;

  double kl_coefficient = 0.0;
  double reference_kl_coefficient = 0.0;
  std::string kl_kind = "k3";  // step_loss.h
  std::string reference_path;
  int64_t reference_update_every = 0;  // not supported with sharding "layers", because no rank has the whole policy
  double entropy_coefficient = 0.0;

  std::string loss_aggregation = "token";
  int64_t loss_constant_tokens = 0;  // for loss_aggregation constant

  std::string advantage_baseline = "mean";
  std::string advantage_normalization = "none";
  std::string advantage_credit = "outcome";
  double turn_discount = 1.0;
  std::string advantage_branches = "nested";
  std::string advantage_groups = "episode";
  bool filter_zero_variance = false;

  std::string train_segments = "all";
  int64_t train_segments_max_age = 0;
  std::string truncated = "train";
  int64_t max_skipped_steps = 3;
  int64_t optimizer_reset_every = 0;

  // For models with experts.
  double expert_balance = 0;
  double expert_bias_rate = 0;  // DeepSeek-V3's bias update
  bool replay_routes = false;   // recorded_routes.h

  TrustRegionOptions trust_region;

  int64_t update_variance_every = 20;  // update_variance.h
  int64_t probe_tokens = 256;
  int64_t checkpoint_every = 20;
  int64_t keep_checkpoints = 2;
  int64_t keep_every = 0;

  // The `sft` and `dpo` stages, which are separate sections alongside `trainer`.
  SftOptions sft;
  SftOptions dpo{.epochs = 1, .max_steps = 0, .batch_size = 8, .optimizer = {.learning_rate = 1e-5}};

  // The draft head, in the `draft` section alongside `trainer`.
  DraftOptions draft;

  // Returns INVALID_ARGUMENT, with the reason, if a field is invalid or two fields conflict.
  absl::Status Validate() const;
  bool by_terms() const { return advantage_normalization == "terms"; }
  // Returns whether samples are compared only within their group.
  bool within_group() const { return advantage_baseline != "batch" && advantage_baseline != "none"; }
  bool by_role() const { return advantage_groups == "role"; }
  bool custom_loss() const { return objective == "custom"; }
  bool needs_reference() const { return objective == "dpo" || reference_kl_coefficient > 0; }

 private:
  absl::Status ValidateObjective() const;
  absl::Status ValidateCustomLoss() const;
  absl::Status ValidateAdvantages() const;
};

void Bind(base::Schema& schema, OptimizerOptions& options);
void Bind(base::Schema& schema, SftOptions& options);
void Bind(base::Schema& schema, TrustRegionOptions& options);
void Bind(base::Schema& schema, OffPolicyMaskOptions& options);
void Bind(base::Schema& schema, CustomLossOptions& options);
// Binds the `trainer` section, without the stages.
void Bind(base::Schema& schema, TrainerOptions& options);

}  // namespace ingot::trainer
