// The one measure that a test leaves out of this process's walls (sandbox/measures.h).
#pragma once

#include "sandbox/measures.h"

namespace ingot::sandbox::launcher {

inline Measure left_out = Measure::kNone;

inline bool Raises(Measure measure) { return measure != left_out; }

// A flag that is one measure, or a set without it.
template <typename Flags>
Flags FlagOf(Measure measure, Flags flag) {
  return Raises(measure) ? flag : Flags{0};
}

}  // namespace ingot::sandbox::launcher
