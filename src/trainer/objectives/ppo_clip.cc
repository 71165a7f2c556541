#include <algorithm>
#include <cmath>

#include "trainer/objectives/clip.h"
#include "trainer/objectives/objective.h"

namespace ingot::trainer {
namespace {

// The clipped surrogate, arXiv 1707.06347, eq. 7, per token. With a cap, the ratio is 1 and its weight is truncated.
class PpoClip final : public Objective {
 public:
  explicit PpoClip(const PpoClipSettings& s)
      : clip_{1.0 - s.eps_clip_low, 1.0 + s.eps_clip_high, s.dual_clip}, cap_(s.importance_cap) {}

  double Loss(const LossEntries& e, std::span<double> derivative) const override {
    double loss = 0;
    for (size_t i = 0; i < e.logprobs.size(); ++i) {
      const Surrogate term = clip_.At(Ratio(e, i), e.advantages[i]);
      const double weight = e.weights[i] * ImportanceWeight(e, i);
      loss -= weight * term.value;
      derivative[i] -= weight * term.derivative;
    }
    return loss;
  }

  void Tally(const LossEntries& e, MetricSums& sums) const override {
    ClipTally tally("ppo", sums);
    for (size_t i = 0; i < e.logprobs.size(); ++i) {
      const double ratio = Ratio(e, i);
      const Surrogate term = clip_.At(ratio, e.advantages[i]);
      tally.AddToken(term.clipped_low, term.clipped_high);
      tally.AddRatio(ratio);
      if (cap_ <= 0) continue;
      sums.means["tis/weight_mean"].Add(ImportanceWeight(e, i));
      sums.means["tis/capped_ratio"].Add(std::exp(e.logprobs[i] - e.recorded[i]) > cap_ ? 1.0 : 0.0);
    }
  }

  std::string Describe() const override {
    if (cap_ > 0) {
      return absl::StrCat(
          "ppo_clip against the trainer's own policy, where the clip never applies; importance weights capped at ",
          cap_);
    }
    std::string text = absl::StrCat("ppo_clip, importance ratio clipped to [", std::max(clip_.low, 0.0), ", ",
                                    clip_.high, "] per token");
    if (clip_.dual > 0) absl::StrAppend(&text, ", negative advantages count at most ", clip_.dual, " times");
    return text;
  }

 private:
  double Ratio(const LossEntries& e, size_t i) const {
    return cap_ > 0 ? 1.0 : std::exp(e.logprobs[i] - e.recorded[i]);
  }
  double ImportanceWeight(const LossEntries& e, size_t i) const {
    return cap_ > 0 ? std::min(std::exp(e.logprobs[i] - e.recorded[i]), cap_) : 1.0;
  }

  const ClipRange clip_;
  const double cap_;
};

}  // namespace

std::unique_ptr<Objective> MakePpoClip(const PpoClipSettings& settings) { return std::make_unique<PpoClip>(settings); }

}  // namespace ingot::trainer
