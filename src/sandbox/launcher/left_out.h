// Stores the measure, if any, that a test disables in this process (sandbox/measures.h).
#pragma once

#include "sandbox/measures.h"

namespace ingot::sandbox::launcher {

inline Measure left_out = Measure::kNone;

inline bool Raises(Measure measure) { return measure != left_out; }

// Returns a flag, or 0 if the test disabled its measure. `flag` may be a set of flags.
template <typename Flags>
Flags FlagOf(Measure measure, Flags flag) {
  return Raises(measure) ? flag : Flags{0};
}

}  // namespace ingot::sandbox::launcher
