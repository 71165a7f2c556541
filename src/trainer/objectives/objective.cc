#include "trainer/objectives/objective.h"

#include "absl/strings/str_join.h"

namespace ingot::trainer {
namespace {

struct Named {
  const char* name;
  std::unique_ptr<Objective> (*make)(const TrainerOptions& options);
};

constexpr Named kObjectives[] = {
    {"cispo", [](const TrainerOptions& o) { return MakeCispo(o.eps_clip_low, o.eps_clip_high); }},
    {"ppo_clip",
     [](const TrainerOptions& o) {
       return MakePpoClip({o.eps_clip_low, o.eps_clip_high, o.dual_clip, o.importance_cap});
     }},
    {"gspo", [](const TrainerOptions& o) { return MakeGspo(o.eps_clip_low, o.eps_clip_high); }},
    {"opmd", [](const TrainerOptions& o) { return MakeOpmd(o.opmd_tau); }},
    {"dpo", [](const TrainerOptions& o) { return MakeDpo(o.dpo_beta); }},
    {"sapo", [](const TrainerOptions& o) { return MakeSapo(o.sapo_tau_positive, o.sapo_tau_negative); }},
};

}  // namespace

std::vector<std::string> ObjectiveNames() {
  std::vector<std::string> names;
  for (const Named& one : kObjectives) names.emplace_back(one.name);
  names.emplace_back("custom");
  return names;
}

absl::StatusOr<std::unique_ptr<Objective>> MakeObjective(const TrainerOptions& options, CustomMaker custom) {
  if (options.custom_loss() && custom != nullptr) return custom(options);
  for (const Named& one : kObjectives) {
    if (options.objective == one.name) return one.make(options);
  }
  return absl::InvalidArgumentError(absl::StrCat("unknown objective '", options.objective, "': use one of ",
                                                 absl::StrJoin(ObjectiveNames(), ", "),
                                                 " (grpo, dr_grpo, dapo, and others are values of trainer.preset)"));
}

}  // namespace ingot::trainer
