#include "app/role_schemas.h"
#include "trainer/presets.h"

namespace ingot::app {
namespace {

void BindOptimizer(base::Schema& schema, const std::string& prefix, trainer::OptimizerOptions& o) {
  schema.Field(prefix + "learning_rate", &o.learning_rate, "AdamW step size at its peak");
  schema.Field(prefix + "warmup_steps", &o.warmup_steps, "steps of linear rise to the peak; 0: none");
  schema.Choice(prefix + "decay", &o.decay, {"cosine", "linear", "constant"}, "after the warm-up");
  schema.Field(prefix + "min_lr_ratio", &o.min_lr_ratio, "of the peak, where cosine and linear end; [0, 1]");
  schema.Field(prefix + "beta1", &o.beta1, "AdamW: decay of the first moment; [0, 1)");
  schema.Field(prefix + "beta2", &o.beta2, "AdamW: decay of the second moment; [0, 1)");
  schema.Field(prefix + "eps", &o.eps, "AdamW: added to the root of the second moment");
  schema.Field(prefix + "weight_decay", &o.weight_decay, "decoupled, on matrices only; 0: off");
  schema.Field(prefix + "grad_clip_norm", &o.grad_clip_norm, "greatest global gradient norm; 0: no clipping");
}

void BindObjective(base::Schema& schema, trainer::TrainerOptions& o) {
  schema.Choice("trainer.preset", &o.preset, trainer::PresetNames(),
                "a published recipe: sets those of the trainer's keys that nothing else sets");
  schema.Choice("trainer.objective", &o.objective, {"cispo", "ppo_clip", "gspo", "opmd", "dpo"}, "the policy loss");
  schema.Field("trainer.eps_clip_low", &o.eps_clip_low, "importance ratios below 1 - this are clipped; >= 1: never");
  schema.Field("trainer.eps_clip_high", &o.eps_clip_high, "importance ratios above 1 + this are clipped");
  schema.Field("trainer.dual_clip", &o.dual_clip,
               "ppo_clip: a negative advantage counts at most this many times; above 1; 0: off");
  schema.Field("trainer.importance_cap", &o.importance_cap,
               "ppo_clip: truncated importance weights between rollout's and trainer's policy, cut at this; 0: off");
  schema.Field("trainer.opmd_tau", &o.opmd_tau, "opmd: weight of the squared sequence log-ratio, halved");
  schema.Field("trainer.dpo_beta", &o.dpo_beta, "dpo: factor of a pair's margin");
}

// Credit of turns, weights of tokens, and which tokens bear loss.
void BindCredit(base::Schema& schema, trainer::TrainerOptions& o) {
  schema.Choice("trainer.loss_aggregation", &o.loss_aggregation, {"token", "sequence", "prompt", "constant"},
                "normaliser of the loss: over the batch's tokens, per episode, per group, or a constant per episode");
  schema.Field("trainer.loss_constant_tokens", &o.loss_constant_tokens,
               "tokens that loss_aggregation constant divides an episode's sum by");
  schema.Choice("trainer.advantage_baseline", &o.advantage_baseline, {"mean", "leave_one_out", "batch", "none"},
                "what is subtracted from a return: the group's mean, that of its other samples, the batch's, nothing");
  schema.Choice("trainer.advantage_normalization", &o.advantage_normalization, {"none", "group", "batch"},
                "divide advantages by a standard deviation");
  schema.Choice("trainer.advantage_credit", &o.advantage_credit, {"outcome", "reward_to_go"},
                "what a turn is credited with: the episode's whole return, or what it earned from that turn on");
  schema.Field("trainer.filter_zero_variance", &o.filter_zero_variance,
               "groups without any advantage bear no loss and count in no normaliser");
  schema.Choice("trainer.train_segments", &o.train_segments, {"all", "current_version", "max_age"},
                "which sampled tokens bear loss, by the version that sampled them (max_age: at most "
                "trainer.train_segments_max_age before this step's); the others are context");
  schema.Field("trainer.train_segments_max_age", &o.train_segments_max_age,
               "max_age: versions between sampling and the step, at most");
  schema.Field("trainer.kl_coefficient", &o.kl_coefficient, "weight of KL(rollout policy || policy); 0: off");
  schema.Field("trainer.reference_kl_coefficient", &o.reference_kl_coefficient,
               "weight of KL(policy || reference policy), estimator k3; 0: off");
  schema.Field("trainer.reference_path", &o.reference_path,
               "model folder of the reference policy; empty: the weights the run starts from");
  schema.Field("trainer.entropy_coefficient", &o.entropy_coefficient, "weight of the entropy bonus; 0: off");
  schema.Field("trainer.max_skipped_steps", &o.max_skipped_steps,
               "steps in a row without loss tokens or with a loss that is not finite; one more stops the run");
  schema.Field("trainer.optimizer_reset_every", &o.optimizer_reset_every,
               "steps between fresh states of the optimizer; 0: never");
}

void BindStep(base::Schema& schema, trainer::TrainerOptions& o) {
  BindOptimizer(schema, "trainer.", o.optimizer);
  schema.Field("trainer.micro_batch_tokens", &o.micro_batch_tokens,
               "merged tokens per forward and backward pass; bounds memory, changes results by rounding only");
  schema.Field("trainer.checkpoint_layers", &o.checkpoint_layers,
               "keep every layer's input alone and run it again in the backward pass: less memory, same gradients");
  schema.Field("trainer.recompute_prefix", &o.recompute_prefix,
               "run what later micro-batches see twice instead of keeping its activations");
  schema.Choice("trainer.sharding", &o.sharding, {"optimizer", "layers"},
                "what cluster.trainer_ranks divide: optimizer state and gradients (ZeRO-2), or the parameters too, "
                "gathered by layer (ZeRO-3): less memory, more exchanges, the same bits");
  schema.Choice("trainer.dtype", &o.dtype, {"model", "fp32", "bf16"},
                "of the weights that are trained (bf16: with fp32 masters and gradient sums); model: as they come");
  schema.Field("trainer.memory_limit_mb", &o.memory_limit_mb,
               "memory of a step, model and optimizer included; one that needs more is refused; 0: what is left");
  schema.Field("trainer.logits_chunk_elements", &o.logits_chunk_elements,
               "elements of the logits matrix held at once; in bf16 the gradient by eight times as many beside them");
  schema.Field("trainer.probe_tokens", &o.probe_tokens,
               "freshly sampled tokens scored before each step, for mismatch/*; 0: no probe");
  schema.Field("trainer.checkpoint_every", &o.checkpoint_every,
               "steps between checkpoints; 0: only when the run ends or is stopped");
  schema.Field("trainer.keep_checkpoints", &o.keep_checkpoints,
               "newest ones kept, and while steps are skipped the last that one was made from");
}

void BindSupervisedStages(base::Schema& schema, trainer::TrainerOptions& o) {
  for (auto* stage : {&o.sft, &o.dpo}) {
    const std::string name = stage == &o.sft ? "sft" : "dpo";
    schema.Field(name + ".epochs", &stage->epochs, "passes over data." + name + "; 0 with max_steps 0: no such stage");
    schema.Field(name + ".max_steps", &stage->max_steps,
                 "optimizer steps of the stage, in as many passes as they take: epochs does not count then; 0: as many "
                 "as the epochs take");
    schema.Field(name + ".batch_size", &stage->batch_size,
                 stage == &o.sft ? "conversations per optimizer step" : "pairs per optimizer step");
    schema.Field(name + ".checkpoint_every", &stage->checkpoint_every,
                 "steps between checkpoints of the stage, which a resumed run goes on from; 0: only after the last");
    BindOptimizer(schema, name + ".", stage->optimizer);
  }
}

}  // namespace

void BindTrainer(base::Schema& schema, trainer::TrainerOptions& o) {
  BindObjective(schema, o);
  BindCredit(schema, o);
  BindStep(schema, o);
  BindSupervisedStages(schema, o);
}

}  // namespace ingot::app
