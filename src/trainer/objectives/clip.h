// Computes PPO's clipped surrogate min(r A, clip(r) A) (arXiv 1707.06347, eq. 7), for one ratio per token or per
// sequence, and the clipping metrics. Shared by the objectives that clip.
#pragma once

#include <string>

#include "trainer/metrics.h"

namespace ingot::trainer {

struct Surrogate {
  double value = 0;
  double derivative = 0;  // with respect to log r: r A on the unclipped branch, or else 0
  bool clipped_low = false;
  bool clipped_high = false;
};

struct ClipRange {
  double low = 0;   // 1 - eps_clip_low; 0 or below = never clips
  double high = 0;  // 1 + eps_clip_high
  double dual = 0;  // above 1 = bounds the factor for a negative advantage; 0 = off

  Surrogate At(double ratio, double advantage) const {
    if (advantage == 0) return {};  // even if the ratio is infinite
    if (advantage > 0 && ratio > high) return {high * advantage, 0, false, true};
    if (advantage < 0 && ratio < low) return {low * advantage, 0, true, false};
    if (advantage < 0 && dual > 0 && ratio > dual) return {dual * advantage, 0, false, true};
    return {ratio * advantage, ratio * advantage, false, false};
  }
};

// Tallies actor/clipfrac_low and _high over tokens, and NAME/ratio_mean and NAME/ratio_max over ratios.
class ClipTally {
 public:
  ClipTally(const std::string& name, MetricSums& sums)
      : below_(sums.means["actor/clipfrac_low"]),
        above_(sums.means["actor/clipfrac_high"]),
        mean_(sums.means[name + "/ratio_mean"]),
        max_(sums.maxima[name + "/ratio_max"]) {}

  void AddToken(bool clipped_low, bool clipped_high) {
    below_.Add(clipped_low ? 1.0 : 0.0);
    above_.Add(clipped_high ? 1.0 : 0.0);
  }
  void AddRatio(double ratio) {
    mean_.Add(ratio);
    max_.Add(ratio);
  }

 private:
  MeanMax &below_, &above_, &mean_, &max_;
};

}  // namespace ingot::trainer
