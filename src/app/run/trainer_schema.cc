#include "app/run/role_schemas.h"
#include "trainer/presets.h"

namespace ingot::app {
namespace {

void BindOptimizer(base::Schema& schema, const std::string& prefix, trainer::OptimizerOptions& o) {
  schema.Field(prefix + "learning_rate", &o.learning_rate, "AdamW step size at its peak");
  schema.Field(prefix + "warmup_steps", &o.warmup_steps, "steps of linear rise to the peak; 0: none");
  schema.Choice(prefix + "decay", &o.decay, {"cosine", "linear", "constant"}, "shape of the rate after the warm-up");
  schema.Field(prefix + "min_lr_ratio", &o.min_lr_ratio, "final rate of cosine and linear, over the peak; [0, 1]");
  schema.Field(prefix + "beta1", &o.beta1, "AdamW: decay of the first moment; [0, 1)");
  schema.Field(prefix + "beta2", &o.beta2, "AdamW: decay of the second moment; [0, 1)");
  schema.Field(prefix + "eps", &o.eps, "AdamW: added to the root of the second moment");
  schema.Field(prefix + "weight_decay", &o.weight_decay, "decoupled, on matrices only; 0: off");
  schema.Field(prefix + "grad_clip_norm", &o.grad_clip_norm, "greatest global gradient norm; 0: no clipping");
}

void BindObjective(base::Schema& schema, trainer::TrainerOptions& o) {
  schema.Choice("trainer.preset", &o.preset, trainer::PresetNames(),
                "a published recipe: sets the trainer's keys that neither file nor command line sets");
  schema.Choice("trainer.objective", &o.objective, {"cispo", "ppo_clip", "gspo", "opmd", "dpo", "sapo"},
                "the policy loss");
  schema.Field("trainer.eps_clip_low", &o.eps_clip_low, "importance ratios below 1 - this are clipped; >= 1: never");
  schema.Field("trainer.eps_clip_high", &o.eps_clip_high, "importance ratios above 1 + this are clipped");
  schema.Field("trainer.dual_clip", &o.dual_clip, "ppo_clip: greatest factor of a negative advantage; above 1; 0: off");
  schema.Field("trainer.importance_cap", &o.importance_cap,
               "ppo_clip: bound of the importance weights between rollout's and trainer's policy, instead of the clip, "
               "which then never acts; 0: off");
  schema.Field("trainer.opmd_tau", &o.opmd_tau, "opmd: half of this is the weight of the squared sequence log-ratio");
  schema.Field("trainer.sapo_tau_positive", &o.sapo_tau_positive,
               "sapo: temperature of the gate for positive advantages; above 0, higher: a narrower gate");
  schema.Field("trainer.sapo_tau_negative", &o.sapo_tau_negative,
               "sapo: temperature of the gate for other advantages; above 0");
  schema.Field("trainer.dpo_beta", &o.dpo_beta, "dpo: factor of a pair's margin");
}

void BindOffPolicyMask(base::Schema& schema, trainer::OffPolicyMaskOptions& o) {
  schema.Field("trainer.mask_token_ratio_low", &o.token_low,
               "tokens with an importance ratio below this give no policy loss, whatever the objective; 0: no bound");
  schema.Field("trainer.mask_token_ratio_high", &o.token_high,
               "tokens with an importance ratio above this give no policy loss, whatever the objective; 0: no bound");
  schema.Field("trainer.mask_sequence_ratio_low", &o.sequence_low,
               "episodes whose ratios have a geometric mean below this give no policy loss; 0: no bound");
  schema.Field("trainer.mask_sequence_ratio_high", &o.sequence_high,
               "episodes whose ratios have a geometric mean above this give no policy loss; 0: no bound");
  schema.Field("trainer.opsm_delta", &o.opsm_delta,
               "episodes of negative advantage give no policy loss where recorded less current log-prob is above this, "
               "in the mean over their tokens, nats; 0: off");
}

// Credit of turns, weights of tokens, and which tokens bear loss.
void BindCredit(base::Schema& schema, trainer::TrainerOptions& o) {
  schema.Choice("trainer.loss_aggregation", &o.loss_aggregation, {"token", "sequence", "prompt", "constant"},
                "normaliser of the loss: over the batch's tokens, per episode, per group, or a constant per episode");
  schema.Field("trainer.loss_constant_tokens", &o.loss_constant_tokens,
               "loss_aggregation constant: divisor of an episode's sum, in tokens (preset dr_grpo: 1024)");
  schema.Choice(
      "trainer.advantage_baseline", &o.advantage_baseline, {"mean", "leave_one_out", "batch", "length", "none"},
      "baseline of a return: the group's mean, the mean of its other samples, the batch's mean, the group's mean "
      "weighted by the samples' tokens (OPO), or none");
  schema.Choice("trainer.advantage_normalization", &o.advantage_normalization,
                {"none", "group", "batch", "mean", "terms"},
                "divide advantages by a standard deviation, or by the group's mean return (MaxRL); terms: each of "
                "rewards.terms by its own deviation in the group, then their weighted sum by the batch's (GDPO)");
  schema.Choice("trainer.advantage_credit", &o.advantage_credit, {"outcome", "reward_to_go"},
                "credit of a turn: the episode's whole return, or the rewards from that turn on");
  schema.Field("trainer.turn_discount", &o.turn_discount,
               "reward_to_go: share of a reward that counts one turn (call) before it was earned; [0, 1]; 1: all");
  schema.Choice("trainer.advantage_branches", &o.advantage_branches, {"nested", "siblings"},
                "advantage of a trunk (agents.branching), the mean of its leaves': compared with the whole group, or "
                "with each other, where it is 0 under a mean");
  schema.Choice("trainer.advantage_groups", &o.advantage_groups, {"episode", "role"},
                "returns to compare within a group: of whole episodes, or of each role of their calls separately");
  schema.Field("trainer.filter_zero_variance", &o.filter_zero_variance,
               "leave groups without any advantage out of the loss and of every normaliser");
  schema.Choice("trainer.train_segments", &o.train_segments, {"all", "current_version", "max_age"},
                "sampled tokens that bear loss, by the version that sampled them (max_age: at most "
                "trainer.train_segments_max_age before this step's); others are context");
  schema.Field("trainer.train_segments_max_age", &o.train_segments_max_age,
               "max_age: greatest number of versions between sampling and the step");
  schema.Choice(
      "trainer.truncated", &o.truncated, {"train", "mask_call", "mask_episode"},
      "calls that ended at a length limit: trained as others, left out, or left out with their whole episode; "
      "their rewards still count in the baseline");
  schema.Field("trainer.kl_coefficient", &o.kl_coefficient, "weight of KL(rollout policy || policy); 0: off");
  schema.Field("trainer.reference_kl_coefficient", &o.reference_kl_coefficient,
               "weight of KL(policy || reference policy); 0: off");
  schema.Choice("trainer.kl_kind", &o.kl_kind, {"k1", "k2", "k3", "abs"},
                "the estimate of both KL penalties by a token's log-ratio (Schulman's k1, k2 and k3, or its absolute "
                "value); k1 to the reference has a gradient of mean 0");
  schema.Field("trainer.reference_path", &o.reference_path,
               "model folder of the reference policy; empty: the run's start weights");
  schema.Field("trainer.reference_update_every", &o.reference_update_every,
               "steps between updates of the reference policy to the current one; 0: it stays");
  schema.Field("trainer.entropy_coefficient", &o.entropy_coefficient, "weight of the entropy bonus; 0: off");
  schema.Field("trainer.max_skipped_steps", &o.max_skipped_steps,
               "steps in a row without loss tokens or with a loss that is not finite; one more stops the run");
  schema.Field("trainer.optimizer_reset_every", &o.optimizer_reset_every,
               "steps between resets of the optimizer's state; 0: never");
}

void BindTrustRegion(base::Schema& schema, trainer::TrustRegionOptions& o) {
  schema.Field(
      "trainer.max_step_kl", &o.max_mean,
      "trust region: greatest mean KL(policy before the step || after) per position, in nats; a step past it is "
      "halved, then taken back; 0: no bound");
  schema.Field("trainer.max_step_kl_position", &o.max_position,
               "trust region: greatest KL at one position, in nats; 0: no bound");
  schema.Field("trainer.step_kl_share", &o.share,
               "trust region: share of the batch's merged rows whose calls are measured; (0, 1]; 1: all calls");
  schema.Field(
      "trainer.step_kl_places", &o.places,
      "trust region: number of places in the batch, drawn anew each step, where the calls are taken unless all are");
  schema.Field("trainer.step_kl_memory_mb", &o.memory_mb,
               "trust region: bound per rank of the policies before the step that are held, a vocabulary for each row; "
               "rows beyond it are not measured");
  schema.Field("trainer.step_kl_halvings", &o.halvings,
               "trust region: number of times that a step is halved before it is taken back");
}

void BindStep(base::Schema& schema, trainer::TrainerOptions& o) {
  BindOptimizer(schema, "trainer.", o.optimizer);
  BindTrustRegion(schema, o.trust_region);
  schema.Field("trainer.micro_batch_tokens", &o.micro_batch_tokens,
               "greatest number of merged tokens per pass; bounds memory, changes results by rounding only");
  schema.Field("trainer.checkpoint_layers", &o.checkpoint_layers,
               "keep only each layer's input and rerun the layer in the backward pass: less memory, same gradients");
  schema.Field("trainer.recompute_prefix", &o.recompute_prefix,
               "run a part that later parts attend to twice instead of keeping its activations");
  schema.Choice(
      "trainer.sharding", &o.sharding, {"optimizer", "layers"},
      "state that cluster.trainer_ranks divide: optimizer state and gradients (ZeRO-2), or the parameters too, "
      "gathered by layer (ZeRO-3): less memory, more exchanges, the same bits");
  schema.Choice(
      "trainer.dtype", &o.dtype, {"model", "fp32", "bf16"},
      "type of the trained weights (bf16: with fp32 masters and gradient sums); model: the loaded weights' own");
  schema.Field("trainer.expert_balance", &o.expert_balance,
               "coefficient of the load-balancing term of models with experts; 0: no term");
  schema.Field("trainer.replay_routes", &o.replay_routes,
               "tokens that bear loss take the experts that the engine recorded (rollout.record_routes)");
  schema.Field(
      "trainer.expert_bias_rate", &o.expert_bias_rate,
      "step by which a router's bias moves towards even loads, without a loss, where the model has one; 0: none");
  schema.Field("trainer.memory_limit_mb", &o.memory_limit_mb,
               "most memory of a step, including model and optimizer; a larger step is rejected; 0: the machine's");
  schema.Field("trainer.logits_chunk_elements", &o.logits_chunk_elements,
               "elements of the logits matrix held at once; bf16 also holds the gradient by eight times as many");
  schema.Field(
      "trainer.update_variance_every", &o.update_variance_every,
      "steps between measurements of trainer/update_variance, each up to four groups' backward passes; 0: none");
  schema.Field("trainer.probe_tokens", &o.probe_tokens,
               "freshly sampled tokens scored before each step, for mismatch/*; 0: no probe");
  schema.Field("trainer.checkpoint_every", &o.checkpoint_every,
               "steps between checkpoints; 0: only when the run ends or is stopped");
  schema.Field("trainer.keep_checkpoints", &o.keep_checkpoints,
               "newest checkpoints to keep, plus the last sound one while steps are skipped");
  schema.Field("trainer.keep_every", &o.keep_every,
               "checkpoints whose step is a multiple of this stay too, step 0 among them; a multiple of "
               "trainer.checkpoint_every, which itself keeps all; 0: none");
}

void BindSupervisedStages(base::Schema& schema, trainer::TrainerOptions& o) {
  for (auto* stage : {&o.sft, &o.dpo}) {
    const std::string name = stage == &o.sft ? "sft" : "dpo";
    schema.Field(name + ".epochs", &stage->epochs, "passes over data." + name + "; 0 with max_steps 0: no such stage");
    schema.Field(name + ".max_steps", &stage->max_steps,
                 "optimizer steps of the stage, in as many passes as needed, instead of epochs; 0: use epochs");
    schema.Field(name + ".batch_size", &stage->batch_size,
                 stage == &o.sft ? "conversations per optimizer step" : "pairs per optimizer step");
    schema.Field(name + ".checkpoint_every", &stage->checkpoint_every,
                 "steps between the stage's checkpoints, from which a resumed run continues; 0: only after the last");
    BindOptimizer(schema, name + ".", stage->optimizer);
  }
}

}  // namespace

void BindTrainer(base::Schema& schema, trainer::TrainerOptions& o) {
  BindObjective(schema, o);
  BindOffPolicyMask(schema, o.off_policy_mask);
  BindCredit(schema, o);
  BindStep(schema, o);
  BindSupervisedStages(schema, o);
}

}  // namespace ingot::app
