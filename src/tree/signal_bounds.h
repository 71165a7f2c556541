// How many signals an episode has at most, and how long their names are: what the gateway takes, and what a report may
// hold so that it is taken.
#pragma once

#include <cstddef>

namespace ingot::tree {

inline constexpr size_t kMaxSignals = 256;
inline constexpr size_t kMaxSignalName = 256;  // bytes, at least one
// Of one report; the rest is for what the runner measures itself.
inline constexpr size_t kMaxReportedSignals = kMaxSignals - 32;

}  // namespace ingot::tree
