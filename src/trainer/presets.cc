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
      // MiniMax Forge: CISPO over the tokens of a group, then over groups; reward-to-go over turns less a baseline that
      // is constant in the turn, no division by a deviation.
      {"forge",
       {{"objective", "cispo"},
        {"eps_clip_low", "1"},
        {"eps_clip_high", "4"},
        {"loss_aggregation", "prompt"},
        {"advantage_baseline", "leave_one_out"},
        {"advantage_normalization", "none"},
        {"advantage_credit", "reward_to_go"}}},
      // arXiv 2402.03300: means per sample, advantages in deviations of their group, k3 to the start policy.
      {"grpo",
       {{"objective", "ppo_clip"},
        {"eps_clip_low", "0.2"},
        {"eps_clip_high", "0.2"},
        {"loss_aggregation", "sequence"},
        {"advantage_baseline", "mean"},
        {"advantage_normalization", "group"},
        {"advantage_credit", "outcome"},
        {"reference_kl_coefficient", "0.04"}}},
      // arXiv 2503.20783, the form of Composer 2: no length standardisation (a constant divisor instead), no division
      // by a deviation; the one outcome on every sampled token of every call, summaries included.
      {"dr_grpo",
       {{"objective", "ppo_clip"},
        {"eps_clip_low", "0.2"},
        {"eps_clip_high", "0.2"},
        {"loss_aggregation", "constant"},
        {"loss_constant_tokens", "1024"},
        {"advantage_baseline", "mean"},
        {"advantage_normalization", "none"},
        {"advantage_credit", "outcome"}}},
      // arXiv 2503.14476: the upper bound decoupled and higher, every token of the batch alike, groups without signal
      // left out (the scheduler's drop_zero_variance samples others in their place). Without overlong shaping, which is
      // the reward's.
      {"dapo",
       {{"objective", "ppo_clip"},
        {"eps_clip_low", "0.2"},
        {"eps_clip_high", "0.28"},
        {"loss_aggregation", "token"},
        {"advantage_baseline", "mean"},
        {"advantage_normalization", "group"},
        {"advantage_credit", "outcome"},
        {"filter_zero_variance", "true"}}},
      // arXiv 2507.18071.
      {"gspo",
       {{"objective", "gspo"},
        {"eps_clip_low", "0.0003"},
        {"eps_clip_high", "0.0004"},
        {"loss_aggregation", "sequence"},
        {"advantage_baseline", "mean"},
        {"advantage_normalization", "group"},
        {"advantage_credit", "outcome"}}},
      // arXiv 1707.06347 without a value function; the other samples' mean (RLOO, arXiv 2402.14740) is the baseline.
      {"ppo",
       {{"objective", "ppo_clip"},
        {"eps_clip_low", "0.2"},
        {"eps_clip_high", "0.2"},
        {"loss_aggregation", "token"},
        {"advantage_baseline", "leave_one_out"},
        {"advantage_normalization", "none"},
        {"advantage_credit", "outcome"}}},
      // Kimi k1.5, arXiv 2501.12599: every step is an iteration of its own, with a fresh optimizer; segments that an
      // earlier policy sampled are context only.
      {"k1.5",
       {{"objective", "opmd"},
        {"loss_aggregation", "sequence"},
        {"advantage_baseline", "mean"},
        {"advantage_normalization", "none"},
        {"advantage_credit", "outcome"},
        {"train_segments", "current_version"},
        {"optimizer_reset_every", "1"}}},
      // arXiv 2305.18290 on a group's best and worst samples.
      {"dpo", {{"objective", "dpo"}, {"loss_aggregation", "sequence"}}},
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
