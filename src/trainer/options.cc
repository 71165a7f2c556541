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
      Require(learning_rate > 0 && std::isfinite(learning_rate), "learning_rate must be a number above 0"));
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
  INGOT_RETURN_IF_ERROR(Require(epochs >= 0, "sft epochs must not be negative"));
  INGOT_RETURN_IF_ERROR(Require(max_steps >= 0, "sft max_steps must not be negative"));
  INGOT_RETURN_IF_ERROR(Require(batch_size > 0, "sft batch_size must be above 0"));
  return base::Annotate(optimizer.Validate(), "sft");
}

absl::Status TrainerOptions::Validate() const {
  INGOT_RETURN_IF_ERROR(Require(groups_per_step >= 0, "groups_per_step must not be negative"));
  INGOT_RETURN_IF_ERROR(Require(group_size >= 0, "group_size must not be negative"));
  INGOT_RETURN_IF_ERROR(Require(total_steps > 0, "total_steps must be above 0"));
  INGOT_RETURN_IF_ERROR(Require(micro_batch_tokens > 0, "micro_batch_tokens must be above 0"));
  INGOT_RETURN_IF_ERROR(Require(logits_chunk_elements > 0, "logits_chunk_elements must be above 0"));
  INGOT_RETURN_IF_ERROR(optimizer.Validate());
  INGOT_RETURN_IF_ERROR(OneOf("objective", objective, {"cispo"}));
  INGOT_RETURN_IF_ERROR(Require(eps_clip_low >= 0, "eps_clip_low must not be negative (1 or more: no lower clip)"));
  INGOT_RETURN_IF_ERROR(Require(eps_clip_high > 0, "eps_clip_high must be above 0"));
  INGOT_RETURN_IF_ERROR(Require(kl_coefficient >= 0, "kl_coefficient must not be negative (0: off)"));
  INGOT_RETURN_IF_ERROR(Require(entropy_coefficient >= 0, "entropy_coefficient must not be negative (0: off)"));
  INGOT_RETURN_IF_ERROR(OneOf("loss_aggregation", loss_aggregation, {"token", "sequence", "prompt"}));
  INGOT_RETURN_IF_ERROR(OneOf("advantage_baseline", advantage_baseline, {"mean", "leave_one_out"}));
  INGOT_RETURN_IF_ERROR(OneOf("advantage_normalization", advantage_normalization, {"none", "group", "batch"}));
  INGOT_RETURN_IF_ERROR(Require(probe_tokens >= 0, "probe_tokens must not be negative (0: no probe)"));
  INGOT_RETURN_IF_ERROR(Require(checkpoint_every >= 0, "checkpoint_every must not be negative"));
  INGOT_RETURN_IF_ERROR(Require(keep_checkpoints > 0, "keep_checkpoints must be above 0"));
  INGOT_RETURN_IF_ERROR(Require(threads >= 0, "threads must not be negative (0: what the process has)"));
  return sft.Validate();
}

}  // namespace ingot::trainer
