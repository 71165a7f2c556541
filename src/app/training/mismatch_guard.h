// Finds an engine that no longer samples from the trained policy (rollout.external.max_mismatch).
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/status.h"

namespace ingot::app {

// Not thread safe.
class MismatchGuard {
 public:
  // `most` limits mismatch/logprob_abs_diff_mean; 0 = no limit.
  explicit MismatchGuard(double most) : most_(most) {}

  // Adds a step's metrics for tokens that `engine` sampled with the weights of `version`. A step without a measurement
  // changes nothing. Returns FAILED_PRECONDITION, with the engine and its last good version, if the engine's last
  // kSteps measurements exceeded the limit. NaN exceeds it.
  absl::Status Add(const std::string& engine, int64_t version, const std::map<std::string, double>& metrics);
  // Forgets the engine's measurements, because the engine has been set aside.
  void Restart(const std::string& engine) { engines_[engine].exceeded = 0; }

  static constexpr int kSteps = 3;

 private:
  struct State {
    int exceeded = 0;        // consecutive measurements above the limit
    int64_t last_good = -1;  // version; -1 = none
  };

  const double most_;
  std::map<std::string, State> engines_;
};

}  // namespace ingot::app
