// Counts the steps in a row that changed no weights, and remembers the newest weights that are known to be sound. One
// count for a stage; the RL stage has its own. Not thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace ingot::trainer {

class SkippedSteps {
 public:
  // `most`: greatest number of steps in a row that may be skipped. `sound`: the version (in a supervised stage: step)
  // whose weights count as sound at first; -1 = none.
  SkippedSteps(int64_t most, int64_t sound) : most_(most), sound_(sound) {}

  // The weights of that version (step) gave a finite gradient. Ends the count.
  void NoteSound(int64_t number) {
    in_a_row_ = not_finite_ = 0;
    sound_ = number;
  }
  // The weights gave a gradient that is not finite: the data may be at fault, or the weights.
  void NoteNotFinite() { ++not_finite_; }
  // Counts the step of that name as skipped. INTERNAL: too many in a row were skipped before it.
  absl::Status Count(const std::string& step, const std::string& why);
  // Allows the greatest number again, without a sound step.
  void Restart() { in_a_row_ = 0; }

  // Consecutive steps, up to now, without a finite gradient.
  int64_t not_finite() const { return not_finite_; }
  int64_t sound() const { return sound_; }
  // CheckpointContents::last_sound_step.
  int64_t last_sound_step() const { return not_finite_ > 0 ? sound_ : -1; }

 private:
  const int64_t most_;
  int64_t in_a_row_ = 0, not_finite_ = 0;
  int64_t sound_;
};

}  // namespace ingot::trainer
