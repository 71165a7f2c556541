// Bounds of an episode's rewards and signals, for every way in: the gateway's API, a verifier's outcome, the pool. A
// number out of bounds is rejected with the text of RewardFault or SignalFault. Pure.
#pragma once

#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"

namespace ingot::tree {

// The largest absolute value of a reward, of an episode or of a call. Sums of squares of a group's returns then stay
// exact to nine digits, and the loss stays finite in fp32. A larger reward would not teach more: Adam divides the
// gradient by its own size.
inline constexpr double kMaxReward = 1e6;
// The same for a signal, which trains nothing: means over many episodes stay finite, in TensorBoard's floats too.
inline constexpr double kMaxSignal = 1e30;

// The rest of a sentence whose subject is the number; empty = it is within the bound.
inline std::string BoundFault(double number, double bound, const char* scale) {
  if (std::abs(number) <= bound) return "";  // false for NaN
  return absl::StrCat("is ", number, ": it must be a finite number from -", scale, " to ", scale, "; scale it");
}
inline std::string RewardFault(double reward) { return BoundFault(reward, kMaxReward, "1e6"); }
inline std::string SignalFault(double signal) { return BoundFault(signal, kMaxSignal, "1e30"); }

}  // namespace ingot::tree
