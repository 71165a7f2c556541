#include "app/checks/loss_warnings.h"

#include <optional>
#include <utility>

#include "base/log.h"
#include "gateway/options.h"
#include "trainer/options.h"
#include "trainer/presets.h"

namespace ingot::app {
namespace {

using Found = std::optional<std::string>;  // nullopt = no warning

// Returns a clip bound from the preset, or else its default.
double BoundOf(const std::string& preset, const std::string& field, double by_default) {
  const auto settings = trainer::Preset(preset);
  if (!settings.ok()) return by_default;
  for (const auto& [name, value] : *settings) {
    if (name == field) return std::stod(value);
  }
  return by_default;
}

// With the cap, every ratio is 1 where it is differentiated (trainer/objectives/objective.h). Bounds from presets or
// defaults cause no warning, because the user did not choose them.
Found ClipThatNeverActs(const RunConfig& config, const DataFacts&) {
  const trainer::TrainerOptions& o = config.trainer;
  if (o.importance_cap == 0) return std::nullopt;
  const trainer::TrainerOptions by_default;
  const bool low = o.eps_clip_low != BoundOf(o.preset, "eps_clip_low", by_default.eps_clip_low);
  const bool high = o.eps_clip_high != BoundOf(o.preset, "eps_clip_high", by_default.eps_clip_high);
  if (!low && !high) return std::nullopt;
  return fmt::format(
      "trainer.{} is {:g} but has no effect because trainer.importance_cap is {:g}: a batch gets one step, so the "
      "ratio to the trainer's own policy is 1 and nothing is clipped; set trainer.importance_cap to 0 to clip, or "
      "remove the bounds",
      low ? "eps_clip_low" : "eps_clip_high", low ? o.eps_clip_low : o.eps_clip_high, o.importance_cap);
}

// Truncation changes the sampled tokens but not the recorded log-probs (rollout/sampling/sampling.h).
Found TruncatedSampling(const RunConfig& config, const DataFacts&) {
  const gateway::SamplingPin& pin = config.gateway.train_sampling;
  std::string set;
  if (pin.top_p < 1) set = fmt::format("top_p is {:g}", pin.top_p);
  if (set.empty() && pin.top_k > 0) set = fmt::format("top_k is {}", pin.top_k);
  if (set.empty() && pin.min_p > 0) set = fmt::format("min_p is {:g}", pin.min_p);
  if (set.empty()) return std::nullopt;
  return fmt::format(
      "gateway.train_sampling.{}: tokens are drawn from part of the vocabulary, but log-probs are recorded over all of "
      "it, so importance ratios and KL terms are biased; set top_p to 1, top_k to 0, and min_p to 0 for training",
      set);
}

// The preset's constant is meant for short answers.
Found ConstantOfShortAnswers(const RunConfig& config, const DataFacts& data) {
  const trainer::TrainerOptions& o = config.trainer;
  if (o.preset != "dr_grpo" || o.loss_aggregation != "constant") return std::nullopt;
  if (static_cast<double>(o.loss_constant_tokens) != BoundOf(o.preset, "loss_constant_tokens", 0)) return std::nullopt;
  if (data.context <= 8 * o.loss_constant_tokens) return std::nullopt;
  return fmt::format(
      "trainer.preset dr_grpo divides an episode's loss by {} tokens, but the context has {}: long episodes have large "
      "gradients, which trainer.grad_clip_norm may cut at every step; set trainer.loss_constant_tokens to the expected "
      "length of an episode",
      o.loss_constant_tokens, data.context);
}

// The default of 1e-4 is meant for adapters and small models.
Found FastForALargeModel(const RunConfig& config, const DataFacts& data) {
  constexpr int64_t kLarge = 200'000'000;
  const double rate = config.trainer.optimizer.learning_rate;
  if (data.parameters <= kLarge || config.model.lora.rank > 0 || rate < 1e-4 || rate > 5e-3) return std::nullopt;
  return fmt::format(
      "trainer.learning_rate is {:g} for all {} million weights of the model; 1e-06 to 1e-05 is usual for RL at this "
      "size: lower it, or train adapters (trainer.lora.rank)",
      rate, data.parameters / 1'000'000);
}

// The gradient of the k1 penalty is the gradient of the log-prob itself (trainer/objectives/step_loss.h).
Found PenaltyWithoutPull(const RunConfig& config, const DataFacts&) {
  const trainer::TrainerOptions& o = config.trainer;
  if (o.kl_kind != "k1" || o.reference_kl_coefficient == 0) return std::nullopt;
  return fmt::format(
      "trainer.kl_kind k1 gives trainer.reference_kl_coefficient {:g} a gradient with mean 0, which does not keep the "
      "policy near its reference; set trainer.kl_kind to k2 or k3",
      o.reference_kl_coefficient);
}

constexpr Found (*kOfTheLoss[])(const RunConfig&, const DataFacts&) = {
    ClipThatNeverActs, TruncatedSampling, ConstantOfShortAnswers, FastForALargeModel, PenaltyWithoutPull,
};

}  // namespace

std::vector<std::string> LossWarnings(const RunConfig& config, const DataFacts& data) {
  std::vector<std::string> warnings;
  if (config.tasks.empty()) return warnings;
  for (const auto find : kOfTheLoss) {
    if (Found warning = find(config, data)) warnings.push_back(*std::move(warning));
  }
  return warnings;
}

}  // namespace ingot::app
