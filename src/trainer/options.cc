#include "trainer/options.h"

#include <cmath>
#include <initializer_list>

namespace ingot::trainer {
namespace {

absl::Status Require(bool holds, const std::string& what) {
  return holds ? absl::OkStatus() : absl::InvalidArgumentError(what);
}

absl::Status OneOf(const std::string& key, const std::string& value, std::initializer_list<const char*> known) {
  std::string list;
  for (const char* name : known) {
    if (value == name) return absl::OkStatus();
    absl::StrAppend(&list, list.empty() ? "" : ", ", name);
  }
  return absl::InvalidArgumentError(absl::StrCat(key, " is '", value, "': use one of ", list));
}

}  // namespace

absl::Status OptimizerOptions::Validate() const {
  INGOT_RETURN_IF_ERROR(
      Require(learning_rate > 0 && learning_rate <= 1e30, "learning_rate must be a number above 0, at most 1e30"));
  INGOT_RETURN_IF_ERROR(Require(warmup_steps >= 0, "warmup_steps must not be negative"));
  INGOT_RETURN_IF_ERROR(OneOf("decay", decay, {"cosine", "linear", "constant"}));
  INGOT_RETURN_IF_ERROR(Require(min_lr_ratio >= 0 && min_lr_ratio <= 1, "min_lr_ratio must be in [0, 1]"));
  INGOT_RETURN_IF_ERROR(Require(beta1 >= 0 && beta1 < 1, "beta1 must be in [0, 1)"));
  INGOT_RETURN_IF_ERROR(Require(beta2 >= 0 && beta2 < 1, "beta2 must be in [0, 1)"));
  INGOT_RETURN_IF_ERROR(Require(eps > 0, "eps must be above 0"));
  INGOT_RETURN_IF_ERROR(Require(weight_decay >= 0, "weight_decay must not be negative"));
  return Require(grad_clip_norm >= 0, "grad_clip_norm must not be negative (0: no clipping)");
}

absl::Status SftOptions::Validate() const {
  INGOT_RETURN_IF_ERROR(Require(epochs >= 0, "epochs must not be negative"));
  INGOT_RETURN_IF_ERROR(Require(max_steps >= 0, "max_steps must not be negative"));
  INGOT_RETURN_IF_ERROR(Require(batch_size > 0, "batch_size must be above 0"));
  INGOT_RETURN_IF_ERROR(
      Require(checkpoint_every >= 0, "checkpoint_every must not be negative (0: after the last step)"));
  return optimizer.Validate();
}

absl::Status TrustRegionOptions::Validate() const {
  INGOT_RETURN_IF_ERROR(Require(max_mean >= 0 && std::isfinite(max_mean), "max_step_kl must not be negative (0: off)"));
  INGOT_RETURN_IF_ERROR(
      Require(max_position >= 0 && std::isfinite(max_position), "max_step_kl_position must not be negative (0: off)"));
  INGOT_RETURN_IF_ERROR(Require(share > 0 && share <= 1, "step_kl_share must be above 0 and at most 1"));
  INGOT_RETURN_IF_ERROR(Require(places > 0, "step_kl_places must be above 0"));
  INGOT_RETURN_IF_ERROR(
      Require(memory_mb > 0 && memory_mb <= 1 << 20, "step_kl_memory_mb must be above 0 and at most 2^20"));
  return Require(halvings >= 0 && halvings <= 20, "step_kl_halvings must be 0 (taken back at once) to 20");
}

absl::Status OffPolicyMaskOptions::Validate() const {
  const auto low = [](double bound) { return bound >= 0 && bound < 1; };
  const auto high = [](double bound) { return bound == 0 || (bound > 1 && std::isfinite(bound)); };
  INGOT_RETURN_IF_ERROR(Require(low(token_low), "mask_token_ratio_low must be in [0, 1) (0: no bound)"));
  INGOT_RETURN_IF_ERROR(Require(high(token_high), "mask_token_ratio_high must be above 1, or 0 (no bound)"));
  INGOT_RETURN_IF_ERROR(Require(low(sequence_low), "mask_sequence_ratio_low must be in [0, 1) (0: no bound)"));
  INGOT_RETURN_IF_ERROR(Require(high(sequence_high), "mask_sequence_ratio_high must be above 1, or 0 (no bound)"));
  return Require(opsm_delta >= 0 && std::isfinite(opsm_delta), "opsm_delta must not be negative (0: off)");
}

absl::Status TrainerOptions::ValidateObjective() const {
  INGOT_RETURN_IF_ERROR(OneOf("objective", objective, {"cispo", "ppo_clip", "gspo", "opmd", "dpo", "sapo"}));
  INGOT_RETURN_IF_ERROR(Require(eps_clip_low >= 0, "eps_clip_low must not be negative (1 or more: no lower clip)"));
  INGOT_RETURN_IF_ERROR(Require(eps_clip_high > 0, "eps_clip_high must be above 0"));
  INGOT_RETURN_IF_ERROR(Require(dual_clip == 0 || dual_clip > 1, "dual_clip must be 0 (off) or above 1"));
  INGOT_RETURN_IF_ERROR(Require(importance_cap >= 0, "importance_cap must not be negative (0: off)"));
  INGOT_RETURN_IF_ERROR(Require(opmd_tau > 0 && std::isfinite(opmd_tau), "opmd_tau must be a number above 0"));
  INGOT_RETURN_IF_ERROR(Require(dpo_beta > 0 && std::isfinite(dpo_beta), "dpo_beta must be a number above 0"));
  INGOT_RETURN_IF_ERROR(
      Require(sapo_tau_positive > 0 && std::isfinite(sapo_tau_positive), "sapo_tau_positive must be a number above 0"));
  INGOT_RETURN_IF_ERROR(
      Require(sapo_tau_negative > 0 && std::isfinite(sapo_tau_negative), "sapo_tau_negative must be a number above 0"));
  INGOT_RETURN_IF_ERROR(Require(kl_coefficient >= 0, "kl_coefficient must not be negative (0: off)"));
  INGOT_RETURN_IF_ERROR(
      Require(reference_kl_coefficient >= 0, "reference_kl_coefficient must not be negative (0: off)"));
  INGOT_RETURN_IF_ERROR(OneOf("kl_kind", kl_kind, {"k1", "k2", "k3", "abs"}));
  INGOT_RETURN_IF_ERROR(Require(kl_kind == "k3" || kl_coefficient > 0 || reference_kl_coefficient > 0,
                                absl::StrCat("kl_kind ", kl_kind,
                                             " names the estimate of a penalty that is off: set kl_coefficient or "
                                             "reference_kl_coefficient above 0, or no kl_kind")));
  INGOT_RETURN_IF_ERROR(Require(entropy_coefficient >= 0, "entropy_coefficient must not be negative (0: off)"));
  INGOT_RETURN_IF_ERROR(OneOf("loss_aggregation", loss_aggregation, {"token", "sequence", "prompt", "constant"}));
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
  INGOT_RETURN_IF_ERROR(off_policy_mask.Validate());
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
  INGOT_RETURN_IF_ERROR(Require(reference_update_every >= 0, "reference_update_every must not be negative (0: never)"));
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
  INGOT_RETURN_IF_ERROR(
      OneOf("advantage_baseline", advantage_baseline, {"mean", "leave_one_out", "batch", "length", "none"}));
  INGOT_RETURN_IF_ERROR(
      OneOf("advantage_normalization", advantage_normalization, {"none", "group", "batch", "mean", "terms"}));
  INGOT_RETURN_IF_ERROR(OneOf("advantage_credit", advantage_credit, {"outcome", "reward_to_go"}));
  INGOT_RETURN_IF_ERROR(OneOf("advantage_branches", advantage_branches, {"nested", "siblings"}));
  INGOT_RETURN_IF_ERROR(Require(advantage_baseline != "none" || advantage_normalization == "none",
                                "advantage_normalization divides by a deviation about a mean; with advantage_baseline "
                                "none no mean is subtracted: set one of them otherwise"));
  INGOT_RETURN_IF_ERROR(Require(advantage_baseline != "batch" || advantage_normalization != "group",
                                "advantage_baseline batch compares across groups; advantage_normalization group would "
                                "scale each group by itself: set it to none or batch"));
  INGOT_RETURN_IF_ERROR(Require(advantage_baseline != "batch" || advantage_normalization != "mean",
                                "advantage_normalization mean divides by the mean of a group, which "
                                "advantage_baseline batch does not subtract: set advantage_baseline mean"));
  INGOT_RETURN_IF_ERROR(Require(turn_discount >= 0 && turn_discount <= 1, "turn_discount must be in [0, 1] (1: off)"));
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
  INGOT_RETURN_IF_ERROR(OneOf("advantage_groups", advantage_groups, {"episode", "role"}));
  INGOT_RETURN_IF_ERROR(Require(objective != "dpo" || !by_role(),
                                "dpo prefers whole episodes, and advantage_groups role compares parts of them: set "
                                "advantage_groups episode, or another objective"));
  INGOT_RETURN_IF_ERROR(Require(!by_terms() || !by_role(),
                                "advantage_normalization terms compares each term of whole episodes, and "
                                "advantage_groups role each role: set one of them otherwise"));
  INGOT_RETURN_IF_ERROR(OneOf("train_segments", train_segments, {"all", "current_version", "max_age"}));
  INGOT_RETURN_IF_ERROR(OneOf("truncated", truncated, {"train", "mask_call", "mask_episode"}));
  return Require(train_segments_max_age >= 0 && (train_segments == "max_age" || train_segments_max_age == 0),
                 "train_segments_max_age is the age of train_segments max_age: 0 or more with it, 0 without it");
}

absl::Status TrainerOptions::Validate() const {
  if (!(expert_balance >= 0)) return absl::InvalidArgumentError("expert_balance must not be negative");
  if (!(expert_bias_rate >= 0)) return absl::InvalidArgumentError("expert_bias_rate must not be negative");
  INGOT_RETURN_IF_ERROR(Require(groups_per_step >= 0, "groups_per_step must not be negative"));
  INGOT_RETURN_IF_ERROR(Require(group_size >= 0, "group_size must not be negative"));
  INGOT_RETURN_IF_ERROR(Require(total_steps > 0, "total_steps must be above 0"));
  INGOT_RETURN_IF_ERROR(Require(micro_batch_tokens > 0, "micro_batch_tokens must be above 0"));
  INGOT_RETURN_IF_ERROR(Require(memory_limit_mb >= 0, "memory_limit_mb must not be negative (0: the machine's)"));
  INGOT_RETURN_IF_ERROR(OneOf("sharding", sharding, {"optimizer", "layers"}));
  INGOT_RETURN_IF_ERROR(OneOf("dtype", dtype, {"model", "fp32", "bf16"}));
  INGOT_RETURN_IF_ERROR(Require(logits_chunk_elements > 0, "logits_chunk_elements must be above 0"));
  INGOT_RETURN_IF_ERROR(optimizer.Validate());
  INGOT_RETURN_IF_ERROR(ValidateObjective());
  INGOT_RETURN_IF_ERROR(ValidateAdvantages());
  INGOT_RETURN_IF_ERROR(trust_region.Validate());
  INGOT_RETURN_IF_ERROR(Require(max_skipped_steps >= 0, "max_skipped_steps must not be negative (0: stop at once)"));
  INGOT_RETURN_IF_ERROR(Require(optimizer_reset_every >= 0, "optimizer_reset_every must not be negative (0: never)"));
  INGOT_RETURN_IF_ERROR(Require(update_variance_every >= 0, "update_variance_every must not be negative (0: never)"));
  INGOT_RETURN_IF_ERROR(Require(probe_tokens >= 0, "probe_tokens must not be negative (0: no probe)"));
  INGOT_RETURN_IF_ERROR(Require(checkpoint_every >= 0, "checkpoint_every must not be negative"));
  INGOT_RETURN_IF_ERROR(Require(keep_checkpoints > 0, "keep_checkpoints must be above 0"));
  INGOT_RETURN_IF_ERROR(Require(keep_every >= 0, "keep_every must not be negative (0: the newest alone stay)"));
  INGOT_RETURN_IF_ERROR(Require(
      keep_every == 0 || (checkpoint_every > 0 && keep_every % checkpoint_every == 0),
      absl::StrCat("keep_every is ", keep_every, ", and checkpoint_every is ", checkpoint_every,
                   ": other steps than its multiples have no checkpoint to keep; set keep_every to one of them")));
  INGOT_RETURN_IF_ERROR(Require(threads >= 0, "threads must not be negative (0: the process's setting)"));
  INGOT_RETURN_IF_ERROR(base::Annotate(sft.Validate(), "sft"));
  return base::Annotate(dpo.Validate(), "dpo");
}

}  // namespace ingot::trainer
