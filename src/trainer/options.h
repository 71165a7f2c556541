// Options of the trainer. Plain values, no torch. Their keys, meanings, bounds and choices are declared in options.cc.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "base/status.h"
#include "kernels/numerics.h"

namespace ingot::base {
class Schema;
}

namespace ingot::trainer {

// AdamW and its learning-rate schedule, for one stage (RL or SFT).
struct OptimizerOptions {
  double learning_rate = 1e-4;
  int64_t warmup_steps = 0;  // the rate rises from learning_rate / warmup_steps
  std::string decay = "cosine";
  double min_lr_ratio = 0.1;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0.0;
  double grad_clip_norm = 1.0;
};

// A supervised stage before the first step: cross entropy on conversations, or DPO on pairs of them.
struct SftOptions {
  int64_t epochs = 1;
  int64_t max_steps = 0;
  int64_t batch_size = 8;
  int64_t checkpoint_every = 500;
  OptimizerOptions optimizer{.learning_rate = 1e-3};
};

// Bounds of a step, measured after the update (trust_region.h). The measure is KL(policy before || policy after) over
// the vocabulary, in nats, at sampled tokens of calls that a seed of the step draws. A step past a bound is halved, and
// finally undone.
struct TrustRegionOptions {
  double max_mean = 0;
  double max_position = 0;
  double share = 0.1;
  int64_t places = 4;
  int64_t memory_mb = 128;
  int64_t halvings = 6;

  bool on() const { return max_mean > 0 || max_position > 0; }
  // The most rows whose policies can be held, `row_bytes` each; at least 1.
  int64_t MostRows(int64_t row_bytes) const { return std::max<int64_t>(1, (memory_mb << 20) / row_bytes); }
};

// Tokens that the policy loss leaves out, with every objective (off_policy_mask.h). Bounds are of the importance
// ratio exp(log-prob under the current weights - recorded log-prob); 0 = no bound.
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

struct TrainerOptions {
  // Not keys of `trainer`: from the scheduler's options, the run's seed, numerics and compute.
  int64_t groups_per_step = 0;  // groups that every batch must hold; 0 = any number
  int64_t group_size = 0;       // finished samples that every group must hold; 0 = any number
  int64_t total_steps = 100;    // optimizer steps of the run, where the decay ends; > 0
  kernels::Numerics numerics = kernels::Numerics::kFast;
  int threads = 0;    // compute threads of the training thread; 0 = the process's setting
  uint64_t seed = 0;  // of shuffling

  // A larger batch is cut, at any token, and the parts pass on the keys and values of shared prefixes.
  int64_t micro_batch_tokens = 8192;
  // A part that later parts see waits for them with its layers' histories. With recompute_prefix it holds only the keys
  // and values of its exports, and runs forward twice. With checkpoint_layers every part holds only its layers' inputs
  // and runs each layer twice; the result is bit-identical.
  bool checkpoint_layers = false;
  bool recompute_prefix = false;
  std::string sharding = "optimizer";  // no effect with one rank
  std::string dtype = "model";
  // CPU only. trainer/pass/memory.h predicts the memory of a step, and a step that needs more fails before it runs.
  int64_t memory_limit_mb = 0;
  int64_t logits_chunk_elements = int64_t{1} << 24;

  OptimizerOptions optimizer;

  // A set of values for the fields below (presets.h). The reader of the configuration expands it; the trainer uses only
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
  double dpo_beta = 0.1;  // also of the stage `dpo`

  OffPolicyMaskOptions off_policy_mask;

  double kl_coefficient = 0.0;
  double reference_kl_coefficient = 0.0;
  std::string kl_kind = "k3";  // step_loss.h
  std::string reference_path;
  int64_t reference_update_every = 0;  // not with sharding layers, where no rank has the whole policy
  double entropy_coefficient = 0.0;

  std::string loss_aggregation = "token";
  int64_t loss_constant_tokens = 0;  // of loss_aggregation constant

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

  // Of models with experts.
  double expert_balance = 0;
  double expert_bias_rate = 0;  // the bias of DeepSeek-V3
  bool replay_routes = false;   // recorded_routes.h

  TrustRegionOptions trust_region;

  int64_t update_variance_every = 20;  // update_variance.h
  int64_t probe_tokens = 256;
  int64_t checkpoint_every = 20;
  int64_t keep_checkpoints = 2;
  int64_t keep_every = 0;

  // The stages `sft` and `dpo`, which are sections next to `trainer`.
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

void Bind(base::Schema& schema, OptimizerOptions& options);
void Bind(base::Schema& schema, SftOptions& options);
void Bind(base::Schema& schema, TrustRegionOptions& options);
void Bind(base::Schema& schema, OffPolicyMaskOptions& options);
// The section `trainer`, without the stages.
void Bind(base::Schema& schema, TrainerOptions& options);

}  // namespace ingot::trainer
