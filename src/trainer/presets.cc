#include "trainer/presets.h"

namespace ingot::trainer {
namespace {

struct NamedPreset {
  const char* name;
  PresetSettings settings;
};

const std::vector<NamedPreset>& Table() {
  static const std::vector<NamedPreset> table = {
      {"none", {}},
      // MiniMax Forge: CISPO, averaged over a group's tokens, then over groups. Reward-to-go over turns, minus a
      // baseline that is the same for all turns. No division by a deviation.
      {"forge",
       {{"objective", "cispo"},
        {"eps_clip_low", "1"},
        {"eps_clip_high", "4"},
        {"loss_aggregation", "prompt"},
        {"advantage_baseline", "leave_one_out"},
        {"advantage_normalization", "none"},
        {"advantage_credit", "reward_to_go"}}},
      // arXiv 2402.03300: means per sample, advantages divided by the group's deviation, k3 to the start policy.
      {"grpo",
       {{"objective", "ppo_clip"},
        {"eps_clip_low", "0.2"},
        {"eps_clip_high", "0.2"},
        {"loss_aggregation", "sequence"},
        {"advantage_baseline", "mean"},
        {"advantage_normalization", "group"},
        {"advantage_credit", "outcome"},
        {"reference_kl_coefficient", "0.04"}}},
      // arXiv 2503.20783, in Composer 2's form: a constant divisor instead of the length, and no division by a
      // deviation. The outcome applies to every sampled token in every call, including summaries.
      {"dr_grpo",
       {{"objective", "ppo_clip"},
        {"eps_clip_low", "0.2"},
        {"eps_clip_high", "0.2"},
        {"loss_aggregation", "constant"},
        {"loss_constant_tokens", "1024"},
        {"advantage_baseline", "mean"},
        {"advantage_normalization", "none"},
        {"advantage_credit", "outcome"}}},
      // arXiv 2503.14476: a higher upper clip bound, equal weights for all tokens of the batch, and no groups without
      // signal (the scheduler's drop_zero_variance samples replacements). Overlong shaping is not included because it
      // is part of the reward.
      {"dapo",
       {{"objective", "ppo_clip"},
        {"eps_clip_low", "0.2"},
        {"eps_clip_high", "0.28"},
        {"loss_aggregation", "token"},
        {"advantage_baseline", "mean"},
        {"advantage_normalization", "group"},
        {"advantage_credit", "outcome"},
        {"filter_zero_variance", "true"}}},
      // arXiv 2507.18071: one ratio per sequence.
      {"gspo",
       {{"objective", "gspo"},
        {"eps_clip_low", "0.0003"},
        {"eps_clip_high", "0.0004"},
        {"loss_aggregation", "sequence"},
        {"advantage_baseline", "mean"},
        {"advantage_normalization", "group"},
        {"advantage_credit", "outcome"}}},
      // arXiv 1707.06347 without a value function. The baseline is the mean of the other samples (RLOO, arXiv
      // 2402.14740).
      {"ppo",
       {{"objective", "ppo_clip"},
        {"eps_clip_low", "0.2"},
        {"eps_clip_high", "0.2"},
        {"loss_aggregation", "token"},
        {"advantage_baseline", "leave_one_out"},
        {"advantage_normalization", "none"},
        {"advantage_credit", "outcome"}}},
      // arXiv 2402.14740 (RLOO): REINFORCE on whole samples, so it sums over a sample's tokens without normalizing by
      // length. The paper samples from the policy itself. If versions differ, the ratio applies and is clipped to [0,
      // 5].
      {"rloo",
       {{"objective", "cispo"},
        {"eps_clip_low", "1"},
        {"eps_clip_high", "4"},
        {"loss_aggregation", "constant"},
        {"loss_constant_tokens", "1"},
        {"advantage_baseline", "leave_one_out"},
        {"advantage_normalization", "none"},
        {"advantage_credit", "outcome"}}},
      // arXiv 2501.03262, REINFORCE++ with a baseline (verl's reinforce_plus_plus_baseline): minus the group's mean,
      // then divided by the deviation over the batch. A KL penalty has its own key.
      {"reinforce_plus_plus",
       {{"objective", "ppo_clip"},
        {"eps_clip_low", "0.2"},
        {"eps_clip_high", "0.2"},
        {"loss_aggregation", "token"},
        {"advantage_baseline", "mean"},
        {"advantage_normalization", "batch"},
        {"advantage_credit", "outcome"}}},
      // Kimi k1.5, arXiv 2501.12599: every step is a separate iteration with a fresh optimizer. Segments sampled by an
      // earlier policy are context only.
      {"k1.5",
       {{"objective", "opmd"},
        {"loss_aggregation", "sequence"},
        {"advantage_baseline", "mean"},
        {"advantage_normalization", "none"},
        {"advantage_credit", "outcome"},
        {"train_segments", "current_version"},
        {"optimizer_reset_every", "1"}}},
      // arXiv 2305.18290 on the best and worst sample of each group.
      {"dpo", {{"objective", "dpo"}, {"loss_aggregation", "sequence"}}},
      // arXiv 2511.20347: a soft gate per token instead of the clip, with its default temperatures. Means per sample.
      {"sapo",
       {{"objective", "sapo"},
        {"loss_aggregation", "sequence"},
        {"advantage_baseline", "mean"},
        {"advantage_normalization", "group"},
        {"advantage_credit", "outcome"}}},
  };
  return table;
}

}  // namespace

std::vector<std::string> PresetNames() {
  std::vector<std::string> names;
  for (const NamedPreset& preset : Table()) names.emplace_back(preset.name);
  return names;
}

absl::StatusOr<PresetSettings> Preset(const std::string& name) {
  std::string known;
  for (const NamedPreset& preset : Table()) {
    if (name == preset.name) return preset.settings;
    absl::StrAppend(&known, known.empty() ? "" : ", ", preset.name);
  }
  return absl::InvalidArgumentError(absl::StrCat("unknown preset '", name, "': use one of ", known));
}

}  // namespace ingot::trainer
