// Where the state spaces lie among generic addresses. Global memory has addresses below all windows.
#pragma once

#include <cstdint>

#include "standin/ptx/types.h"

namespace ingot::standin::ptx {

inline constexpr int kWindowShift = 56;

constexpr uint64_t WindowOf(Space space) {
  switch (space) {
    case Space::kShared:
      return uint64_t{1} << kWindowShift;
    case Space::kLocal:
      return uint64_t{2} << kWindowShift;
    case Space::kParam:
      return uint64_t{3} << kWindowShift;
    default:
      return 0;
  }
}

constexpr Space SpaceOf(uint64_t generic) {
  constexpr Space kSpaces[] = {Space::kGlobal, Space::kShared, Space::kLocal, Space::kParam};
  const uint64_t window = generic >> kWindowShift;
  return window < 4 ? kSpaces[window] : Space::kGlobal;
}

}  // namespace ingot::standin::ptx
