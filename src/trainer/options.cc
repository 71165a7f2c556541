#include "trainer/options.h"

#include "base/config.h"
#include "trainer/objectives/objective.h"
#include "trainer/presets.h"

namespace ingot::trainer {
namespace {

absl::Status Require(bool holds, const std::string& what) {
  return holds ? absl::OkStatus() : absl::InvalidArgumentError(what);
}

void BindObjective(base::Schema& schema, TrainerOptions& o) {
  schema.Choice("preset", &o.preset, PresetNames(),
                "a published recipe: sets the trainer's keys that neither file nor command line sets");
  schema.Choice("objective", &o.objective, ObjectiveNames(), "the policy loss");
  schema.Field("eps_clip_low", &o.eps_clip_low, "importance ratios below 1 - this are clipped; >= 1: never",
               base::NotNegative());
  schema.Field("eps_clip_high", &o.eps_clip_high, "importance ratios above 1 + this are clipped", base::Positive());
  schema.Field("dual_clip", &o.dual_clip, "ppo_clip: greatest factor of a negative advantage; 0: off",
               base::Above(1).OrZero());
  schema.Field("importance_cap", &o.importance_cap,
               "ppo_clip: bound of the importance weights between rollout's and trainer's policy, instead of the clip, "
               "which then never acts; 0: off",
               base::NotNegative());
  schema.Field("opmd_tau", &o.opmd_tau, "opmd: half of this is the weight of the squared sequence log-ratio",
               base::Positive());
  schema.Field("sapo_tau_positive", &o.sapo_tau_positive,
               "sapo: temperature of the gate for positive advantages; higher: a narrower gate", base::Positive());
  schema.Field("sapo_tau_negative", &o.sapo_tau_negative, "sapo: temperature of the gate for other advantages",
               base::Positive());
  schema.Field("dpo_beta", &o.dpo_beta, "dpo: factor of a pair's margin", base::Positive());
}

// Binds turn credit, token weights, and the choice of tokens that bear loss.
void BindCredit(base::Schema& schema, TrainerOptions& o) {
  schema.Choice("loss_aggregation", &o.loss_aggregation, {"token", "sequence", "prompt", "constant"},
                "normaliser of the loss: over the batch's tokens, per episode, per group, or a constant per episode");
  schema.Field("loss_constant_tokens", &o.loss_constant_tokens,
               "loss_aggregation constant: divisor of an episode's sum, in tokens (preset dr_grpo: 1024)",
               base::NotNegative());
  schema.Choice(
      "advantage_baseline", &o.advantage_baseline, {"mean", "leave_one_out", "batch", "length", "none"},
      "baseline of a return: the group's mean, the mean of its other samples, the batch's mean, the group's mean "
      "weighted by the samples' tokens (OPO), or none");
  schema.Choice("advantage_normalization", &o.advantage_normalization, {"none", "group", "batch", "mean", "terms"},
                "divide advantages by a standard deviation, or by the group's mean return (MaxRL); terms: each of "
                "rewards.terms by its own deviation in the group, then their weighted sum by the batch's (GDPO)");
  schema.Choice("advantage_credit", &o.advantage_credit, {"outcome", "reward_to_go"},
                "credit of a turn: the episode's whole return, or the rewards from that turn on");
  schema.Field("turn_discount", &o.turn_discount,
               "reward_to_go: share of a reward that counts one turn (call) before it was earned; 1: all",
               base::InRange(0, 1));
  schema.Choice("advantage_branches", &o.advantage_branches, {"nested", "siblings"},
                "advantage of a trunk (agents.branching), the mean of its leaves': compared with the whole group, or "
                "with each other, where it is 0 under a mean");
  schema.Choice("advantage_groups", &o.advantage_groups, {"episode", "role"},
                "returns to compare within a group: of whole episodes, or of each role of their calls separately");
  schema.Field("filter_zero_variance", &o.filter_zero_variance,
               "leave groups without any advantage out of the loss and of every normaliser");
  schema.Choice("train_segments", &o.train_segments, {"all", "current_version", "max_age"},
                "sampled tokens that bear loss, by the version that sampled them (max_age: at most "
                "trainer.train_segments_max_age before this step's); others are context");
  schema.Field("train_segments_max_age", &o.train_segments_max_age,
               "max_age: greatest number of versions between sampling and the step", base::NotNegative());
  schema.Choice(
      "truncated", &o.truncated, {"train", "mask_call", "mask_episode"},
      "calls that ended at a length limit: trained as others, left out, or left out with their whole episode; "
      "their rewards still count in the baseline");
  schema.Field("kl_coefficient", &o.kl_coefficient, "weight of KL(rollout policy || policy); 0: off",
               base::NotNegative());
  schema.Field("reference_kl_coefficient", &o.reference_kl_coefficient,
               "weight of KL(policy || reference policy); 0: off", base::NotNegative());
  schema.Choice("kl_kind", &o.kl_kind, {"k1", "k2", "k3", "abs"},
                "the estimate of both KL penalties by a token's log-ratio (Schulman's k1, k2 and k3, or its absolute "
                "value); k1 to the reference has a gradient of mean 0");
  schema.Field("reference_path", &o.reference_path,
               "model folder of the reference policy; empty: the run's start weights");
  schema.Field("reference_update_every", &o.reference_update_every,
               "steps between updates of the reference policy to the current one; 0: it stays", base::NotNegative());
  schema.Field("entropy_coefficient", &o.entropy_coefficient, "weight of the entropy bonus; 0: off",
               base::NotNegative());
  schema.Field("max_skipped_steps", &o.max_skipped_steps,
               "steps in a row without loss tokens or with a loss that is not finite; one more stops the run",
               base::NotNegative());
  schema.Field("optimizer_reset_every", &o.optimizer_reset_every,
               "steps between resets of the optimizer's state; 0: never", base::NotNegative());
}

void BindStep(base::Schema& schema, TrainerOptions& o) {
  Bind(schema, o.optimizer);
  Bind(schema, o.trust_region);
  schema.Field("micro_batch_tokens", &o.micro_batch_tokens,
               "greatest number of merged tokens per pass; bounds memory, changes results by rounding only",
               base::Positive());
  schema.Field("checkpoint_layers", &o.checkpoint_layers,
               "keep only each layer's input and rerun the layer in the backward pass: less memory, same gradients");
  schema.Field("recompute_prefix", &o.recompute_prefix,
               "run a part that later parts attend to twice instead of keeping its activations");
  schema.Choice(
      "sharding", &o.sharding, {"optimizer", "layers"},
      "state that cluster.trainer_ranks divide: optimizer state and gradients (ZeRO-2), or the parameters too, "
      "gathered by layer (ZeRO-3): less memory, more exchanges, the same bits");
  schema.Choice(
      "dtype", &o.dtype, {"model", "fp32", "bf16"},
      "type of the trained weights (bf16: with fp32 masters and gradient sums); model: the loaded weights' own");
  schema.Field("expert_balance", &o.expert_balance,
               "coefficient of the load-balancing term of models with experts; 0: no term", base::NotNegative());
  schema.Field("replay_routes", &o.replay_routes,
               "tokens that bear loss take the experts that the engine recorded (rollout.record_routes)");
  schema.Field(
      "expert_bias_rate", &o.expert_bias_rate,
      "step by which a router's bias moves towards even loads, without a loss, where the model has one; 0: none",
      base::NotNegative());
  schema.Field("memory_limit_mb", &o.memory_limit_mb,
               "most memory of a step, including model and optimizer; a larger step is rejected; 0: the machine's",
               base::NotNegative());
  schema.Field("logits_chunk_elements", &o.logits_chunk_elements,
               "elements of the logits matrix held at once; bf16 also holds the gradient by eight times as many",
               base::Positive());
  schema.Field(
      "update_variance_every", &o.update_variance_every,
      "steps between measurements of trainer/update_variance, each up to four groups' backward passes; 0: none",
      base::NotNegative());
  schema.Field("probe_tokens", &o.probe_tokens,
               "freshly sampled tokens scored before each step, for mismatch/*; 0: no probe", base::NotNegative());
  schema.Field("checkpoint_every", &o.checkpoint_every,
               "steps between checkpoints; 0: only when the run ends or is stopped", base::NotNegative());
  schema.Field("keep_checkpoints", &o.keep_checkpoints,
               "newest checkpoints to keep, plus the last sound one while steps are skipped", base::Positive());
  schema.Field("keep_every", &o.keep_every,
               "checkpoints whose step is a multiple of this stay too, step 0 among them; a multiple of "
               "trainer.checkpoint_every, which itself keeps all; 0: none",
               base::NotNegative());
}

}  // namespace

void Bind(base::Schema& schema, OptimizerOptions& o) {
  schema.Field("learning_rate", &o.learning_rate, "AdamW step size at its peak", base::LeftOpen(0, 1e30));
  schema.Field("warmup_steps", &o.warmup_steps, "steps of linear rise to the peak; 0: none", base::NotNegative());
  schema.Choice("decay", &o.decay, {"cosine", "linear", "constant"}, "shape of the rate after the warm-up");
  schema.Field("min_lr_ratio", &o.min_lr_ratio, "final rate of cosine and linear, over the peak", base::InRange(0, 1));
  schema.Field("beta1", &o.beta1, "AdamW: decay of the first moment", base::RightOpen(0, 1));
  schema.Field("beta2", &o.beta2, "AdamW: decay of the second moment", base::RightOpen(0, 1));
  schema.Field("eps", &o.eps, "AdamW: added to the root of the second moment", base::Positive());
  schema.Field("weight_decay", &o.weight_decay, "decoupled, on matrices only; 0: off", base::NotNegative());
  schema.Field("grad_clip_norm", &o.grad_clip_norm, "greatest global gradient norm; 0: no clipping",
               base::NotNegative());
}

void Bind(base::Schema& schema, SftOptions& o) {
  schema.Field("epochs", &o.epochs, "passes over data.sft or data.dpo; 0 with max_steps 0: no such stage",
               base::NotNegative());
  schema.Field("max_steps", &o.max_steps,
               "optimizer steps of the stage, in as many passes as needed, instead of epochs; 0: use epochs",
               base::NotNegative());
  schema.Field("batch_size", &o.batch_size, "conversations, or pairs of them, per optimizer step", base::Positive());
  schema.Field("checkpoint_every", &o.checkpoint_every,
               "steps between the stage's checkpoints, from which a resumed run continues; 0: only after the last",
               base::NotNegative());
  Bind(schema, o.optimizer);
}

void Bind(base::Schema& schema, TrustRegionOptions& o) {
  schema.Field(
      "max_step_kl", &o.max_mean,
      "trust region: greatest mean KL(policy before the step || after) per position, in nats; a step past it is "
      "halved, then taken back; 0: no bound",
      base::NotNegative());
  schema.Field("max_step_kl_position", &o.max_position,
               "trust region: greatest KL at one position, in nats; 0: no bound", base::NotNegative());
  schema.Field("step_kl_share", &o.share,
               "trust region: share of the batch's merged rows whose calls are measured; 1: all calls",
               base::Fraction());
  schema.Field(
      "step_kl_places", &o.places,
      "trust region: number of places in the batch, drawn anew each step, where the calls are taken unless all are",
      base::Positive());
  schema.Field("step_kl_memory_mb", &o.memory_mb,
               "trust region: bound per rank of the policies before the step that are held, a vocabulary for each row; "
               "rows beyond it are not measured",
               base::InRange(1, 1 << 20));
  schema.Field("step_kl_halvings", &o.halvings,
               "trust region: number of times that a step is halved before it is taken back", base::InRange(0, 20));
}

void Bind(base::Schema& schema, OffPolicyMaskOptions& o) {
  schema.Field("mask_token_ratio_low", &o.token_low,
               "tokens with an importance ratio below this give no policy loss, whatever the objective; 0: no bound",
               base::RightOpen(0, 1));
  schema.Field("mask_token_ratio_high", &o.token_high,
               "tokens with an importance ratio above this give no policy loss, whatever the objective; 0: no bound",
               base::Above(1).OrZero());
  schema.Field("mask_sequence_ratio_low", &o.sequence_low,
               "episodes whose ratios have a geometric mean below this give no policy loss; 0: no bound",
               base::RightOpen(0, 1));
  schema.Field("mask_sequence_ratio_high", &o.sequence_high,
               "episodes whose ratios have a geometric mean above this give no policy loss; 0: no bound",
               base::Above(1).OrZero());
  schema.Field("opsm_delta", &o.opsm_delta,
               "episodes of negative advantage give no policy loss where recorded less current log-prob is above this, "
               "in the mean over their tokens, nats; 0: off",
               base::NotNegative());
}

void Bind(base::Schema& schema, TrainerOptions& o) {
  BindObjective(schema, o);
  Bind(schema, o.off_policy_mask);
  BindCredit(schema, o);
  BindStep(schema, o);
}

absl::Status TrainerOptions::ValidateObjective() const {
  INGOT_RETURN_IF_ERROR(Require(kl_kind == "k3" || kl_coefficient > 0 || reference_kl_coefficient > 0,
                                absl::StrCat("kl_kind ", kl_kind,
                                             " names the estimate of a penalty that is off: set kl_coefficient or "
                                             "reference_kl_coefficient above 0, or no kl_kind")));
  INGOT_RETURN_IF_ERROR(
      Require((loss_aggregation == "constant") == (loss_constant_tokens > 0),
              "loss_constant_tokens is the divisor of loss_aggregation constant: above 0 with it, 0 without it"));

  const bool ppo = objective == "ppo_clip";
  INGOT_RETURN_IF_ERROR(
      Require(dual_clip == 0 || ppo, absl::StrCat("dual_clip bounds the surrogate of ppo_clip; ", objective,
                                                  " has none: set dual_clip 0 or objective ppo_clip")));
  INGOT_RETURN_IF_ERROR(
      Require(importance_cap == 0 || ppo,
              absl::StrCat("importance_cap weights the surrogate of ppo_clip; ", objective,
                           objective == "cispo"  ? " cuts its importance weights at 1 + eps_clip_high already"
                           : objective == "sapo" ? " has a gate on the ratio instead"
                                                 : " has none for a token",
                           ": set importance_cap 0 or objective ppo_clip")));
  INGOT_RETURN_IF_ERROR(Require(
      importance_cap == 0 || dual_clip == 0,
      "importance_cap takes the ratio to the trainer's own policy, which is 1 in its one step, so dual_clip would "
      "never act: set one of them to 0"));
  const bool whole_sequences = objective == "gspo" || objective == "opmd" || objective == "dpo";
  INGOT_RETURN_IF_ERROR(
      Require(!whole_sequences || loss_aggregation == "sequence",
              absl::StrCat(objective, " has one term per sequence, which loss_aggregation ", loss_aggregation,
                           " would weigh by its length or its group: set loss_aggregation sequence")));
  const bool penalty = kl_coefficient > 0 || reference_kl_coefficient > 0 || entropy_coefficient > 0;
  INGOT_RETURN_IF_ERROR(
      Require(objective != "dpo" || !penalty,
              "dpo holds the policy to its reference by dpo_beta: kl_coefficient, reference_kl_coefficient and "
              "entropy_coefficient must be 0 with it"));
  INGOT_RETURN_IF_ERROR(
      Require(objective != "dpo" || !off_policy_mask.on(),
              "dpo compares with its reference and has no importance ratio: mask_token_ratio_*, mask_sequence_ratio_* "
              "and opsm_delta must be 0 with it"));
  INGOT_RETURN_IF_ERROR(Require(objective != "dpo" || truncated == "train",
                                absl::StrCat("dpo prefers whole episodes, and truncated ", truncated,
                                             " would leave out calls of them: set truncated train")));
  INGOT_RETURN_IF_ERROR(
      Require(objective != "dpo" || group_size != 1,
              "dpo compares samples of a group; groups of one hold no pair: set group_size 2 or more"));
  INGOT_RETURN_IF_ERROR(Require(
      reference_update_every == 0 || needs_reference(),
      "reference_update_every moves a reference policy that nothing uses: set reference_kl_coefficient above 0, "
      "objective dpo, or reference_update_every 0"));
  INGOT_RETURN_IF_ERROR(
      Require(reference_update_every == 0 || sharding != "layers",
              "reference_update_every copies the whole policy, which no rank has with sharding layers: set sharding "
              "optimizer, or reference_update_every 0"));
  return Require(reference_path.empty() || needs_reference(),
                 "reference_path names a reference policy that nothing uses: set reference_kl_coefficient above 0, "
                 "objective dpo, or no path");
}

absl::Status TrainerOptions::ValidateAdvantages() const {
  INGOT_RETURN_IF_ERROR(Require(advantage_baseline != "none" || advantage_normalization == "none",
                                "advantage_normalization divides by a deviation about a mean; with advantage_baseline "
                                "none no mean is subtracted: set one of them otherwise"));
  INGOT_RETURN_IF_ERROR(Require(advantage_baseline != "batch" || advantage_normalization != "group",
                                "advantage_baseline batch compares across groups; advantage_normalization group would "
                                "scale each group by itself: set it to none or batch"));
  INGOT_RETURN_IF_ERROR(Require(advantage_baseline != "batch" || advantage_normalization != "mean",
                                "advantage_normalization mean divides by the mean of a group, which "
                                "advantage_baseline batch does not subtract: set advantage_baseline mean"));
  INGOT_RETURN_IF_ERROR(Require(turn_discount == 1 || advantage_credit == "reward_to_go",
                                "turn_discount discounts the rewards from a turn on; advantage_credit outcome gives "
                                "every turn the whole return: set advantage_credit reward_to_go, or turn_discount 1"));
  INGOT_RETURN_IF_ERROR(Require(advantage_baseline != "batch" || advantage_normalization != "terms",
                                "advantage_normalization terms compares each term within its group, and "
                                "advantage_baseline batch across groups: set advantage_baseline to mean, "
                                "leave_one_out or length"));
  INGOT_RETURN_IF_ERROR(Require(objective != "dpo" || advantage_normalization != "terms",
                                "dpo pairs episodes by their returns, which are sums of terms: advantage_normalization "
                                "terms needs another objective, or set it to none"));
  INGOT_RETURN_IF_ERROR(Require((advantage_baseline != "mean" && advantage_baseline != "length") || group_size != 1,
                                "with group_size 1 a sample is its group's mean, and every advantage 0: set "
                                "advantage_baseline to batch, leave_one_out (then 0) or none"));
  INGOT_RETURN_IF_ERROR(Require(objective != "dpo" || advantage_credit == "outcome",
                                "dpo prefers whole episodes: advantage_credit must be outcome"));
  INGOT_RETURN_IF_ERROR(Require(objective != "dpo" || !by_role(),
                                "dpo prefers whole episodes, and advantage_groups role compares parts of them: set "
                                "advantage_groups episode, or another objective"));
  INGOT_RETURN_IF_ERROR(Require(!by_terms() || !by_role(),
                                "advantage_normalization terms compares each term of whole episodes, and "
                                "advantage_groups role each role: set one of them otherwise"));
  return Require(train_segments == "max_age" || train_segments_max_age == 0,
                 "train_segments_max_age is the age of train_segments max_age: 0 or more with it, 0 without it");
}

absl::Status TrainerOptions::Validate() const {
  INGOT_RETURN_IF_ERROR(base::CheckBounds(*this));
  INGOT_RETURN_IF_ERROR(base::Annotate(base::CheckBounds(sft), "sft"));
  INGOT_RETURN_IF_ERROR(base::Annotate(base::CheckBounds(dpo), "dpo"));
  INGOT_RETURN_IF_ERROR(Require(groups_per_step >= 0, "groups_per_step must not be negative"));
  INGOT_RETURN_IF_ERROR(Require(group_size >= 0, "group_size must not be negative"));
  INGOT_RETURN_IF_ERROR(Require(total_steps > 0, "total_steps must be above 0"));
  INGOT_RETURN_IF_ERROR(Require(threads >= 0, "threads must not be negative (0: the process's setting)"));
  INGOT_RETURN_IF_ERROR(ValidateObjective());
  INGOT_RETURN_IF_ERROR(ValidateAdvantages());
  return Require(keep_every == 0 || (checkpoint_every > 0 && keep_every % checkpoint_every == 0),
                 absl::StrCat("keep_every is ", keep_every, ", and checkpoint_every is ", checkpoint_every,
                              ": other steps than its multiples have no checkpoint to keep; set keep_every to one of "
                              "them"));
}

}  // namespace ingot::trainer
