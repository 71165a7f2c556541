// Counts consecutive steps that did not change the weights, and records the newest weights that are known to be sound.
// Each supervised stage and the RL stage has its own count. Not thread safe.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace ingot::trainer {

class SkippedSteps {
 public:
  // `most` is the maximum number of consecutive skipped steps. `sound` is the version (or step, in a supervised stage)
  // with weights that are initially considered sound; -1 = none.
  SkippedSteps(int64_t most, int64_t sound) : most_(most), sound_(sound) {}

  // Records that this version's (step's) weights gave a finite gradient, and resets the count.
  void NoteSound(int64_t number) {
    in_a_row_ = not_finite_ = 0;
    sound_ = number;
  }
  // Records that the weights gave a non-finite gradient. Either the data or the weights may be at fault.
  void NoteNotFinite() { ++not_finite_; }
  // Counts the named step as skipped. Returns INTERNAL if too many consecutive steps were already skipped.
  absl::Status Count(const std::string& step, const std::string& why);
  // Resets the count of consecutive skips, even without a sound step.
  void Restart() { in_a_row_ = 0; }

  // Returns the number of most recent consecutive steps without a finite gradient.
  int64_t not_finite() const { return not_finite_; }
  int64_t sound() const { return sound_; }
  // Returns the value for CheckpointContents::last_sound_step.
  int64_t last_sound_step() const { return not_finite_ > 0 ? sound_ : -1; }

 private:
  const int64_t most_;
  int64_t in_a_row_ = 0, not_finite_ = 0;
  int64_t sound_;
};

}  // namespace ingot::trainer
