#include "trainer/objectives/objective.h"

namespace ingot::trainer {

absl::StatusOr<std::unique_ptr<Objective>> MakeObjective(const TrainerOptions& options) {
  if (options.objective == "cispo") return MakeCispo(options.eps_clip_low, options.eps_clip_high);
  if (options.objective == "ppo_clip") {
    return MakePpoClip({options.eps_clip_low, options.eps_clip_high, options.dual_clip, options.importance_cap});
  }
  if (options.objective == "gspo") return MakeGspo(options.eps_clip_low, options.eps_clip_high);
  if (options.objective == "opmd") return MakeOpmd(options.opmd_tau);
  if (options.objective == "dpo") return MakeDpo(options.dpo_beta);
  if (options.objective == "sapo") return MakeSapo(options.sapo_tau_positive, options.sapo_tau_negative);
  return absl::InvalidArgumentError(absl::StrCat("unknown objective '", options.objective,
                                                 "': use one of cispo, ppo_clip, gspo, opmd, dpo, sapo (grpo, dr_grpo, "
                                                 "dapo and others are values of preset)"));
}

}  // namespace ingot::trainer
