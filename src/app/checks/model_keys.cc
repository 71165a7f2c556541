#include "app/checks/model_keys.h"

#include "model/served_types.h"

namespace ingot::app {

absl::Status CheckModelKeys(const RunConfig& config, const model::ModelConfig& shape) {
  const trainer::TrainerOptions& trainer = config.trainer;
  const struct {
    const char* key;
    bool set;
  } of_experts[] = {{"trainer.expert_balance", trainer.expert_balance > 0},
                    {"trainer.expert_bias_rate", trainer.expert_bias_rate > 0},
                    {"trainer.replay_routes", trainer.replay_routes},
                    {"rollout.record_routes", config.rollout.record_routes}};
  for (const auto& [key, set] : of_experts) {
    if (!set || shape.experts.count > 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(key, " is set, but the model (", shape.model_type, ") has no experts: remove it"));
  }
  if (trainer.expert_bias_rate > 0 && !shape.experts.correction_bias) {
    return absl::InvalidArgumentError(absl::StrCat("trainer.expert_bias_rate is set, but the routers of ",
                                                   shape.model_type,
                                                   " have no biases: use trainer.expert_balance instead"));
  }
  if (trainer.replay_routes && !config.rollout.record_routes) {
    return absl::InvalidArgumentError(
        "trainer.replay_routes is set, but no engine records routes: set rollout.record_routes too");
  }
  // The trainer publishes its own weights, so no engine reads this folder.
  if (config.model.path.empty() || trainer.dtype != "model") return absl::OkStatus();
  return model::CheckServedTypes(config.model.path, "set trainer.dtype to fp32 or bf16");
}

}  // namespace ingot::app
