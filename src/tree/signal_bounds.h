// Bounds of an episode's signals. The gateway refuses more; a report that keeps within them is accepted.
#pragma once

#include <cstddef>

namespace ingot::tree {

inline constexpr size_t kMaxSignals = 256;
inline constexpr size_t kMaxSignalName = 256;  // bytes, at least one
// Signals of one report; the others are left to the runner's own measurements.
inline constexpr size_t kMaxReportedSignals = kMaxSignals - 32;

}  // namespace ingot::tree
