// The clipped surrogate min(r A, clip(r) A), shared by the objectives that have one ratio per token and per sequence.
#pragma once

namespace ingot::trainer {

struct Surrogate {
  double value = 0;
  double derivative = 0;  // by log r: r A where the plain branch is the smaller, else 0
  bool clipped_low = false;
  bool clipped_high = false;
};

struct ClipRange {
  double low = 0;   // 1 - eps_clip_low; 0 and below: never acts
  double high = 0;  // 1 + eps_clip_high
  double dual = 0;  // > 1: a negative advantage counts at most so many times; 0: off

  Surrogate At(double ratio, double advantage) const {
    if (advantage == 0) return {};  // also where the ratio is infinite
    if (advantage > 0 && ratio > high) return {high * advantage, 0, false, true};
    if (advantage < 0 && ratio < low) return {low * advantage, 0, true, false};
    if (advantage < 0 && dual > 0 && ratio > dual) return {dual * advantage, 0, false, true};
    return {ratio * advantage, ratio * advantage, false, false};
  }
};

}  // namespace ingot::trainer
