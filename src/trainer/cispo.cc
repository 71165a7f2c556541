#include <ATen/ATen.h>

#include <cmath>

#include "trainer/objective.h"

namespace ingot::trainer {
namespace {

class Cispo final : public Objective {
 public:
  Cispo(double eps_clip_low, double eps_clip_high) : low_(1.0 - eps_clip_low), high_(1.0 + eps_clip_high) {}

  at::Tensor Loss(const LossEntries& entries) const override {
    const at::Tensor ratio = (entries.logprobs.detach() - entries.recorded).exp().clamp(low_, high_);
    return -(ratio * entries.advantages * entries.weights * entries.logprobs).sum();
  }

  void Tally(std::span<const double> logprobs, std::span<const double> recorded, MetricSums& sums) const override {
    MeanMax& below = sums.means["actor/clipfrac_low"];
    MeanMax& above = sums.means["actor/clipfrac_high"];
    MeanMax& mean = sums.means["cispo/ratio_mean"];
    MeanMax& max = sums.maxima["cispo/ratio_max"];
    for (size_t i = 0; i < logprobs.size(); ++i) {
      const double ratio = std::exp(logprobs[i] - recorded[i]);
      below.Add(ratio < low_ ? 1.0 : 0.0);
      above.Add(ratio > high_ ? 1.0 : 0.0);
      mean.Add(ratio);
      max.Add(ratio);
    }
  }

 private:
  const double low_;
  const double high_;
};

}  // namespace

std::unique_ptr<Objective> MakeCispo(double eps_clip_low, double eps_clip_high) {
  return std::make_unique<Cispo>(eps_clip_low, eps_clip_high);
}

absl::StatusOr<std::unique_ptr<Objective>> MakeObjective(const TrainerOptions& options) {
  if (options.objective == "cispo") return MakeCispo(options.eps_clip_low, options.eps_clip_high);
  return absl::InvalidArgumentError(absl::StrCat("unknown objective '", options.objective, "': use cispo"));
}

}  // namespace ingot::trainer
