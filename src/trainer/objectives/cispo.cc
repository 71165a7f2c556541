#include <algorithm>
#include <cmath>

#include "trainer/objectives/clip.h"
#include "trainer/objectives/objective.h"

namespace ingot::trainer {
namespace {

// CISPO, arXiv 2506.13585, eq. 4: the clipped ratio is a constant factor, and only log-probs are differentiated.
class Cispo final : public Objective {
 public:
  Cispo(double eps_clip_low, double eps_clip_high) : low_(1.0 - eps_clip_low), high_(1.0 + eps_clip_high) {}

  double Loss(const LossEntries& e, std::span<double> derivative) const override {
    double loss = 0;
    for (size_t i = 0; i < e.logprobs.size(); ++i) {
      const double held = std::clamp(std::exp(e.logprobs[i] - e.recorded[i]), low_, high_);
      const double coefficient = -e.weights[i] * held * e.advantages[i];
      derivative[i] += coefficient;
      loss += coefficient * e.logprobs[i];
    }
    return loss;
  }

  void Tally(const LossEntries& e, MetricSums& sums) const override {
    ClipTally tally("cispo", sums);
    for (size_t i = 0; i < e.logprobs.size(); ++i) {
      const double ratio = std::exp(e.logprobs[i] - e.recorded[i]);
      tally.AddToken(ratio<low_, ratio> high_);
      tally.AddRatio(ratio);
    }
  }

  std::string Describe() const override {
    return absl::StrCat("cispo, importance ratio clipped to [", std::max(low_, 0.0), ", ", high_, "] per token");
  }

 private:
  const double low_;
  const double high_;
};

}  // namespace

std::unique_ptr<Objective> MakeCispo(double eps_clip_low, double eps_clip_high) {
  return std::make_unique<Cispo>(eps_clip_low, eps_clip_high);
}

}  // namespace ingot::trainer
