#include "trainer/options.h"

#include "base/config.h"
#include "base/python_name.h"
#include "trainer/objectives/objective.h"
#include "trainer/presets.h"

namespace ingot::trainer {
namespace {

absl::Status Require(bool holds, const std::string& what) {
  return holds ? absl::OkStatus() : absl::InvalidArgumentError(what);
}

void BindObjective(base::Schema& schema, TrainerOptions& o) {
  schema.Choice("preset", &o.preset, PresetNames(),
                "published recipe; sets the trainer keys that neither the file nor the command line sets");
  schema.Choice("objective", &o.objective, ObjectiveNames(), "the policy loss; custom: trainer.custom.function");
  schema.Section("custom", o.custom);
  schema.Field("eps_clip_low", &o.eps_clip_low, "importance ratios below 1 - eps_clip_low are clipped; >= 1: never",
               base::NotNegative());
  schema.Field("eps_clip_high", &o.eps_clip_high, "importance ratios above 1 + eps_clip_high are clipped",
               base::Positive());
  schema.Field("dual_clip", &o.dual_clip,
               "ppo_clip: upper bound for the ratio of tokens with a negative advantage; 0: off",
               base::Above(1).OrZero());
  schema.Field("importance_cap", &o.importance_cap,
               "ppo_clip: upper bound for importance weights between the rollout policy and the trainer's policy, "
               "which replace the clip; 0: off",
               base::NotNegative());
  schema.Field("opmd_tau", &o.opmd_tau, "opmd: twice the weight of the squared sequence log-ratio", base::Positive());
  schema.Field("sapo_tau_positive", &o.sapo_tau_positive,
               "sapo: temperature of the gate for positive advantages; higher: narrower", base::Positive());
  schema.Field("sapo_tau_negative", &o.sapo_tau_negative, "sapo: temperature of the gate for other advantages",
               base::Positive());
  schema.Field("dpo_beta", &o.dpo_beta, "dpo: scale of a pair's margin", base::Positive());
}

// Binds turn credit, token weights, and the choice of tokens that bear loss.
void BindCredit(base::Schema& schema, TrainerOptions& o) {
  schema.Choice("loss_aggregation", &o.loss_aggregation, {"token", "sequence", "prompt", "constant"},
                "how the loss is averaged: token: over the batch's tokens; sequence: per episode; prompt: per group; "
                "constant: by a constant per episode");
  schema.Field("loss_constant_tokens", &o.loss_constant_tokens,
               "loss_aggregation constant: divisor of an episode's loss, in tokens (preset dr_grpo: 1024)",
               base::NotNegative());
  schema.Choice(
      "advantage_baseline", &o.advantage_baseline, {"mean", "leave_one_out", "batch", "length", "none"},
      "baseline that is subtracted from a return: mean: the group's mean; leave_one_out: the mean of the group's other "
      "samples; batch: the batch's mean; length: the group's mean weighted by tokens (OPO); none: no baseline");
  schema.Choice(
      "advantage_normalization", &o.advantage_normalization, {"none", "group", "batch", "mean", "terms"},
      "what advantages are divided by: group, batch: the standard deviation; mean: the group's mean return (MaxRL); "
      "terms: each reward term by its standard deviation in the group, then their weighted sum by the batch's (GDPO)");
  schema.Choice("advantage_credit", &o.advantage_credit, {"outcome", "reward_to_go"},
                "credit of a turn: outcome: the episode's whole return; reward_to_go: the rewards from that turn on");
  schema.Field("turn_discount", &o.turn_discount, "reward_to_go: discount per turn (call); 1: none",
               base::InRange(0, 1));
  schema.Choice("advantage_branches", &o.advantage_branches, {"nested", "siblings"},
                "what an episode's leaves are compared with if groups branch (agents.branching): nested: the whole "
                "group; siblings: the other leaves of their trunk, so a trunk's advantage is 0 with a mean baseline");
  schema.Choice("advantage_groups", &o.advantage_groups, {"episode", "role"},
                "what is compared within a group: episode: returns of whole episodes; role: returns of each role's "
                "calls separately");
  schema.Field("filter_zero_variance", &o.filter_zero_variance,
               "exclude groups without any advantage from the loss and from every average");
  schema.Choice("train_segments", &o.train_segments, {"all", "current_version", "max_age"},
                "sampled tokens that are trained, by the version that sampled them (max_age: at most "
                "trainer.train_segments_max_age versions old); other tokens are only context");
  schema.Field("train_segments_max_age", &o.train_segments_max_age,
               "max_age: maximum number of versions between sampling and the step", base::NotNegative());
  schema.Choice("truncated", &o.truncated, {"train", "mask_call", "mask_episode"},
                "calls that ended at a length limit: train: train on them; mask_call: exclude them; mask_episode: "
                "exclude their whole episode; their rewards still count in the baseline");
  schema.Field("kl_coefficient", &o.kl_coefficient, "weight of KL(rollout policy || policy); 0: off",
               base::NotNegative());
  schema.Field("reference_kl_coefficient", &o.reference_kl_coefficient,
               "weight of KL(policy || reference policy); 0: off", base::NotNegative());
  schema.Choice("kl_kind", &o.kl_kind, {"k1", "k2", "k3", "abs"},
                "estimator of both KL penalties from a token's log-ratio (Schulman's k1, k2, and k3, or its absolute "
                "value); with k1, the gradient of the reference penalty has mean 0");
  schema.Field("reference_path", &o.reference_path,
               "model folder of the reference policy; empty: the run's initial weights");
  schema.Field("reference_update_every", &o.reference_update_every,
               "steps between updates of the reference policy to the current policy; 0: never", base::NotNegative());
  schema.Field("entropy_coefficient", &o.entropy_coefficient, "weight of the entropy bonus; 0: off",
               base::NotNegative());
  schema.Field("max_skipped_steps", &o.max_skipped_steps,
               "maximum number of consecutive steps without trained tokens or with a loss that is not finite; the next "
               "one ends the run",
               base::NotNegative());
  schema.Field("optimizer_reset_every", &o.optimizer_reset_every,
               "steps between resets of the optimizer's state; 0: never", base::NotNegative());
}

void BindStep(base::Schema& schema, TrainerOptions& o) {
  Bind(schema, o.optimizer);
  Bind(schema, o.trust_region);
  schema.Field("micro_batch_tokens", &o.micro_batch_tokens,
               "maximum number of merged tokens per pass; limits memory, and affects results only by rounding",
               base::Positive());
  schema.Field(
      "checkpoint_layers", &o.checkpoint_layers,
      "keep only each layer's input, and recompute the layer in the backward pass: less memory, same gradients");
  schema.Field("recompute_prefix", &o.recompute_prefix,
               "recompute parts that later parts attend to instead of keeping their activations");
  schema.Choice(
      "sharding", &o.sharding, {"optimizer", "layers"},
      "state that is sharded across cluster.trainer_ranks: optimizer: optimizer state and gradients (ZeRO-2); layers: "
      "also the parameters, gathered by layer (ZeRO-3), with less memory, more communication, and identical results");
  schema.Choice("dtype", &o.dtype, {"model", "fp32", "bf16"},
                "type of the trained weights (bf16: with fp32 master weights and gradient sums); model: the type of "
                "the loaded weights");
  schema.Field("expert_balance", &o.expert_balance,
               "coefficient of the load-balancing loss for models with experts; 0: none", base::NotNegative());
  schema.Field("replay_routes", &o.replay_routes,
               "route trained tokens to the experts that the engine recorded (rollout.record_routes)");
  schema.Field("expert_bias_rate", &o.expert_bias_rate,
               "step by which router biases move toward even expert loads, without a loss, for models that have such "
               "biases; 0: none",
               base::NotNegative());
  schema.Field(
      "memory_limit_mb", &o.memory_limit_mb,
      "maximum memory for a step, including model and optimizer; larger steps are rejected; 0: the machine's memory",
      base::NotNegative());
  schema.Field("logits_chunk_elements", &o.logits_chunk_elements,
               "number of logits held at once; with bf16, their gradient takes eight times as many elements",
               base::Positive());
  schema.Field(
      "update_variance_every", &o.update_variance_every,
      "steps between measurements of trainer/update_variance, which take up to four groups' backward passes; 0: none",
      base::NotNegative());
  schema.Field("probe_tokens", &o.probe_tokens,
               "freshly sampled tokens scored before each step, for mismatch/*; 0: no probe", base::NotNegative());
  schema.Field("checkpoint_every", &o.checkpoint_every,
               "steps between checkpoints; 0: only when the run ends or is stopped", base::NotNegative());
  schema.Field("keep_checkpoints", &o.keep_checkpoints,
               "number of newest checkpoints to keep, plus the last one before steps were skipped", base::Positive());
  schema.Field("keep_every", &o.keep_every,
               "also keep checkpoints whose step is a multiple of this, including step 0; must be a multiple of "
               "trainer.checkpoint_every; 0: none",
               base::NotNegative());
}

}  // namespace

void Bind(base::Schema& schema, OptimizerOptions& o) {
  schema.Field("learning_rate", &o.learning_rate, "peak learning rate of AdamW", base::LeftOpen(0, 1e30));
  schema.Field("warmup_steps", &o.warmup_steps, "steps of linear warm-up to the peak; 0: none", base::NotNegative());
  schema.Choice("decay", &o.decay, {"cosine", "linear", "constant"}, "shape of the learning rate after the warm-up");
  schema.Field("min_lr_ratio", &o.min_lr_ratio, "final learning rate of cosine and linear, relative to the peak",
               base::InRange(0, 1));
  schema.Field("beta1", &o.beta1, "AdamW: decay of the first moment", base::RightOpen(0, 1));
  schema.Field("beta2", &o.beta2, "AdamW: decay of the second moment", base::RightOpen(0, 1));
  schema.Field("eps", &o.eps, "AdamW: added to the root of the second moment", base::Positive());
  schema.Field("weight_decay", &o.weight_decay, "decoupled weight decay, for matrices only; 0: off",
               base::NotNegative());
  schema.Field("grad_clip_norm", &o.grad_clip_norm, "maximum global gradient norm; 0: no clipping",
               base::NotNegative());
}

void Bind(base::Schema& schema, SftOptions& o) {
  schema.Field("epochs", &o.epochs, "passes over data.sft or data.dpo; if max_steps is also 0, 0: skip the stage",
               base::NotNegative());
  schema.Field("max_steps", &o.max_steps,
               "optimizer steps of the stage, with as many passes as needed, instead of epochs; 0: use epochs",
               base::NotNegative());
  schema.Field("batch_size", &o.batch_size, "conversations, or pairs of them, per optimizer step", base::Positive());
  schema.Field("checkpoint_every", &o.checkpoint_every,
               "steps between the stage's checkpoints, from which a resumed run continues; 0: only after the last",
               base::NotNegative());
  Bind(schema, o.optimizer);
}

void Bind(base::Schema& schema, TrustRegionOptions& o) {
  schema.Field("max_step_kl", &o.max_mean,
               "trust region: maximum mean KL(policy before the step || after) per position, in nats; a larger step is "
               "halved, and finally undone; 0: no bound",
               base::NotNegative());
  schema.Field("max_step_kl_position", &o.max_position,
               "trust region: maximum KL at one position, in nats; 0: no bound", base::NotNegative());
  schema.Field("step_kl_share", &o.share,
               "trust region: share of the batch's merged rows whose calls are measured; 1: all calls",
               base::Fraction());
  schema.Field("step_kl_places", &o.places,
               "trust region: number of random places in the batch from which the measured calls are taken, unless all "
               "calls are measured",
               base::Positive());
  schema.Field("step_kl_memory_mb", &o.memory_mb,
               "trust region: maximum memory per rank for log-probs before the step, one vocabulary per row; further "
               "rows are not measured",
               base::InRange(1, 1 << 20));
  schema.Field("step_kl_halvings", &o.halvings,
               "trust region: maximum number of times that a step is halved before it is undone", base::InRange(0, 20));
}

void Bind(base::Schema& schema, OffPolicyMaskOptions& o) {
  schema.Field(
      "mask_token_ratio_low", &o.token_low,
      "exclude tokens with an importance ratio below this from the policy loss, with any objective; 0: no bound",
      base::RightOpen(0, 1));
  schema.Field(
      "mask_token_ratio_high", &o.token_high,
      "exclude tokens with an importance ratio above this from the policy loss, with any objective; 0: no bound",
      base::Above(1).OrZero());
  schema.Field("mask_sequence_ratio_low", &o.sequence_low,
               "exclude episodes whose ratios have a geometric mean below this from the policy loss; 0: no bound",
               base::RightOpen(0, 1));
  schema.Field("mask_sequence_ratio_high", &o.sequence_high,
               "exclude episodes whose ratios have a geometric mean above this from the policy loss; 0: no bound",
               base::Above(1).OrZero());
  schema.Field("opsm_delta", &o.opsm_delta,
               "exclude episodes with a negative advantage from the policy loss if their recorded log-probs exceed the "
               "current ones by more than this, as a mean over tokens, in nats; 0: off",
               base::NotNegative());
}

void Bind(base::Schema& schema, CustomLossOptions& o) {
  schema.Field(
      "function", &o.function,
      "loss in Python, as FILE.py:NAME or PACKAGE.MODULE:NAME; the interpreter in `python` runs it once at startup "
      "to trace its torch operations; it returns [T], the loss of each token");
  schema.Choice("scope", &o.scope, {"call", "batch"},
                "tokens that the function gets together: one call's, or the whole batch's");
}

void Bind(base::Schema& schema, TrainerOptions& o) {
  BindObjective(schema, o);
  Bind(schema, o.off_policy_mask);
  BindCredit(schema, o);
  BindStep(schema, o);
}

absl::Status TrainerOptions::ValidateCustomLoss() const {
  INGOT_RETURN_IF_ERROR(Require(custom_loss() || custom.function.empty(),
                                absl::StrCat("custom.function is ", custom.function, ", but objective is ", objective,
                                             ": set objective to custom, or remove custom.function")));
  INGOT_RETURN_IF_ERROR(
      Require(custom_loss() || custom.scope == "call",
              "custom.scope needs objective custom: set objective to custom, or remove custom.scope"));
  return custom_loss() ? base::CheckPythonName("custom.function", custom.function, "losses.py:my_loss")
                       : absl::OkStatus();
}

absl::Status TrainerOptions::ValidateObjective() const {
  INGOT_RETURN_IF_ERROR(ValidateCustomLoss());
  INGOT_RETURN_IF_ERROR(Require(kl_kind == "k3" || kl_coefficient > 0 || reference_kl_coefficient > 0,
                                absl::StrCat("kl_kind ", kl_kind,
                                             " has no effect, because both KL penalties are off: set kl_coefficient or "
                                             "reference_kl_coefficient above 0, or remove kl_kind")));
  INGOT_RETURN_IF_ERROR(Require((loss_aggregation == "constant") == (loss_constant_tokens > 0),
                                "loss_constant_tokens is the divisor for loss_aggregation constant: set it above 0 "
                                "with that aggregation, and to 0 otherwise"));

  const bool ppo = objective == "ppo_clip";
  INGOT_RETURN_IF_ERROR(
      Require(dual_clip == 0 || ppo, absl::StrCat("dual_clip needs objective ppo_clip, but the objective is ",
                                                  objective, ": set dual_clip to 0, or the objective to ppo_clip")));
  INGOT_RETURN_IF_ERROR(
      Require(importance_cap == 0 || ppo,
              absl::StrCat("importance_cap needs objective ppo_clip; ", objective,
                           objective == "cispo"  ? " already limits its importance weights to 1 + eps_clip_high"
                           : objective == "sapo" ? " has a gate on the ratio instead"
                                                 : " has no importance weights per token",
                           ": set importance_cap to 0, or the objective to ppo_clip")));
  INGOT_RETURN_IF_ERROR(Require(importance_cap == 0 || dual_clip == 0,
                                "dual_clip has no effect with importance_cap, because the ratio to the trainer's own "
                                "policy is then always 1: set one of them to 0"));
  const bool whole_sequences = objective == "gspo" || objective == "opmd" || objective == "dpo";
  INGOT_RETURN_IF_ERROR(
      Require(!whole_sequences || loss_aggregation == "sequence",
              absl::StrCat(objective, " has one loss term per sequence, which loss_aggregation ", loss_aggregation,
                           " would weight by its length or its group: set loss_aggregation to sequence")));
  const bool penalty = kl_coefficient > 0 || reference_kl_coefficient > 0 || entropy_coefficient > 0;
  INGOT_RETURN_IF_ERROR(Require(objective != "dpo" || !penalty,
                                "with objective dpo, dpo_beta keeps the policy near its reference: set kl_coefficient, "
                                "reference_kl_coefficient, and entropy_coefficient to 0"));
  INGOT_RETURN_IF_ERROR(Require(
      objective != "dpo" || !off_policy_mask.on(),
      "objective dpo has no importance ratio: set mask_token_ratio_*, mask_sequence_ratio_*, and opsm_delta to 0"));
  INGOT_RETURN_IF_ERROR(Require(objective != "dpo" || truncated == "train",
                                absl::StrCat("objective dpo compares whole episodes, but truncated ", truncated,
                                             " would exclude some of their calls: set truncated to train")));
  INGOT_RETURN_IF_ERROR(Require(objective != "dpo" || group_size != 1,
                                "objective dpo needs pairs of samples in a group: set group_size to 2 or more"));
  INGOT_RETURN_IF_ERROR(
      Require(reference_update_every == 0 || needs_reference(),
              "reference_update_every updates a reference policy that nothing uses: set reference_kl_coefficient above "
              "0, the objective to dpo, or reference_update_every to 0"));
  INGOT_RETURN_IF_ERROR(Require(reference_update_every == 0 || sharding != "layers",
                                "reference_update_every copies the whole policy, but no rank has all of it with "
                                "sharding layers: set sharding to optimizer, or reference_update_every to 0"));
  return Require(reference_path.empty() || needs_reference(),
                 "reference_path names a reference policy that nothing uses: set reference_kl_coefficient above 0, set "
                 "the objective to dpo, or remove reference_path");
}

absl::Status TrainerOptions::ValidateAdvantages() const {
  INGOT_RETURN_IF_ERROR(
      Require(advantage_baseline != "none" || advantage_normalization == "none",
              "advantage_normalization needs a baseline, but advantage_baseline is none: change one of them"));
  INGOT_RETURN_IF_ERROR(Require(advantage_baseline != "batch" || advantage_normalization != "group",
                                "advantage_baseline batch compares across groups, but advantage_normalization group "
                                "scales each group separately: set the normalization to none or batch"));
  INGOT_RETURN_IF_ERROR(Require(advantage_baseline != "batch" || advantage_normalization != "mean",
                                "advantage_normalization mean divides by the group's mean, but advantage_baseline "
                                "batch does not subtract it: set the baseline to mean"));
  INGOT_RETURN_IF_ERROR(Require(turn_discount == 1 || advantage_credit == "reward_to_go",
                                "turn_discount has no effect with advantage_credit outcome, which gives every turn the "
                                "whole return: set advantage_credit to reward_to_go, or turn_discount to 1"));
  INGOT_RETURN_IF_ERROR(
      Require(advantage_baseline != "batch" || advantage_normalization != "terms",
              "advantage_normalization terms compares each term within its group, but advantage_baseline batch "
              "compares across groups: set the baseline to mean, leave_one_out, or length"));
  INGOT_RETURN_IF_ERROR(Require(objective != "dpo" || advantage_normalization != "terms",
                                "objective dpo pairs episodes by their returns, so advantage_normalization terms has "
                                "no effect: set it to none, or use another objective"));
  INGOT_RETURN_IF_ERROR(Require((advantage_baseline != "mean" && advantage_baseline != "length") || group_size != 1,
                                "with group_size 1, each sample equals its group's mean, so every advantage is 0: set "
                                "advantage_baseline to batch, leave_one_out (which is then 0), or none"));
  INGOT_RETURN_IF_ERROR(Require(objective != "dpo" || advantage_credit == "outcome",
                                "objective dpo compares whole episodes: set advantage_credit to outcome"));
  INGOT_RETURN_IF_ERROR(Require(objective != "dpo" || !by_role(),
                                "objective dpo compares whole episodes, but advantage_groups role compares parts of "
                                "them: set advantage_groups to episode, or use another objective"));
  INGOT_RETURN_IF_ERROR(Require(!by_terms() || !by_role(),
                                "advantage_normalization terms compares whole episodes, but advantage_groups role "
                                "compares roles: change one of them"));
  return Require(train_segments == "max_age" || train_segments_max_age == 0,
                 "train_segments_max_age needs train_segments max_age: set it to 0, or set train_segments to max_age");
}

absl::Status TrainerOptions::Validate() const {
  INGOT_RETURN_IF_ERROR(base::CheckBounds(*this));
  INGOT_RETURN_IF_ERROR(base::Annotate(base::CheckBounds(sft), "sft"));
  INGOT_RETURN_IF_ERROR(base::Annotate(base::CheckBounds(dpo), "dpo"));
  INGOT_RETURN_IF_ERROR(base::Annotate(draft.Validate(), "draft"));
  INGOT_RETURN_IF_ERROR(Require(groups_per_step >= 0, "groups_per_step must not be negative"));
  INGOT_RETURN_IF_ERROR(Require(group_size >= 0, "group_size must not be negative"));
  INGOT_RETURN_IF_ERROR(Require(total_steps > 0, "total_steps must be above 0"));
  INGOT_RETURN_IF_ERROR(Require(threads >= 0, "threads must not be negative (0: the process's setting)"));
  INGOT_RETURN_IF_ERROR(ValidateObjective());
  INGOT_RETURN_IF_ERROR(ValidateAdvantages());
  return Require(keep_every == 0 || (checkpoint_every > 0 && keep_every % checkpoint_every == 0),
                 absl::StrCat("keep_every is ", keep_every, ", and checkpoint_every is ", checkpoint_every,
                              ": only multiples of checkpoint_every have a checkpoint; set keep_every to one of them"));
}

}  // namespace ingot::trainer
