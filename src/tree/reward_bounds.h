// Checks the bounds on an episode's rewards and signals, for all inputs: the gateway's API, a verifier's outcome, and
// the pool. Out-of-bounds numbers are rejected with the message from RewardFault or SignalFault. Pure functions.
#pragma once

#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"

namespace ingot::tree {

// The largest absolute value allowed for an episode's or call's reward. Within this bound, sums of squares of a group's
// returns are exact to nine digits, and the loss is finite in fp32. A larger reward would not improve training, because
// Adam divides the gradient by its own magnitude.
inline constexpr double kMaxReward = 1e6;
// The largest absolute value of a signal, which is not trained on. Within this bound, means over many episodes remain
// finite, even in TensorBoard's floats.
inline constexpr double kMaxSignal = 1e30;

// Returns an error message to append to the number's name. Empty = the number is within the bound.
inline std::string BoundFault(double number, double bound, const char* scale) {
  if (std::abs(number) <= bound) return "";  // false for NaN
  return absl::StrCat("is ", number, ": it must be a finite number from -", scale, " to ", scale, "; scale it");
}
inline std::string RewardFault(double reward) { return BoundFault(reward, kMaxReward, "1e6"); }
inline std::string SignalFault(double signal) { return BoundFault(signal, kMaxSignal, "1e30"); }

}  // namespace ingot::tree
