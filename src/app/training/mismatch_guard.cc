#include "app/training/mismatch_guard.h"

#include "absl/strings/str_format.h"

namespace ingot::app {

absl::Status MismatchGuard::Add(const std::string& engine, int64_t version,
                                const std::map<std::string, double>& metrics) {
  const auto found = metrics.find("mismatch/logprob_abs_diff_mean");
  if (most_ <= 0 || found == metrics.end()) return absl::OkStatus();
  State& state = engines_[engine];
  if (found->second <= most_) {
    state = {.exceeded = 0, .last_good = version};
    return absl::OkStatus();
  }
  if (++state.exceeded < kSteps) return absl::OkStatus();
  const std::string good = state.last_good < 0 ? std::string("no version was good since this process started")
                                               : absl::StrFormat("version %d was the last good one", state.last_good);
  return absl::FailedPreconditionError(
      absl::StrFormat("%s does not sample from the trained policy: its log-probs differ by %.3g on average at version "
                      "%d, but rollout.external.max_mismatch is %g (%d consecutive measured steps; %s). Run `ingot "
                      "engine check` on its server",
                      engine, found->second, version, most_, kSteps, good));
}

}  // namespace ingot::app
