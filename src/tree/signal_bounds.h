// Defines the names and bounds allowed for an episode's signals and facts. The gateway rejects reports that violate
// them.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

#include "base/printable.h"

namespace ingot::tree {

inline constexpr size_t kMaxSignals = 256;
inline constexpr size_t kMaxSignalName = 256;    // in bytes, at least one
inline constexpr size_t kMaxFacts = 64;          // their names follow the same rules as signal names
inline constexpr size_t kMaxFactBytes = 262144;  // total size of an episode's facts, including names and JSON
// The maximum number of signals in one report. The rest are reserved for the runner's own measurements.
inline constexpr size_t kMaxReportedSignals = kMaxSignals - 32;

// Returns whether a signal may have this name: 1 to kMaxSignalName bytes, all printable.
inline bool IsSignalName(std::string_view name) {
  return !name.empty() && name.size() <= kMaxSignalName && base::IsPrintable(name);
}

// Returns the size in bytes of `facts`, a map from names to JSON.
template <typename Facts>
size_t FactBytes(const Facts& facts) {
  size_t bytes = 0;
  for (const auto& [name, json] : facts) bytes += name.size() + json.size();
  return bytes;
}

// Returns whether one more fact would keep the facts within the bounds. REQUIRES: there is no fact with this name yet.
template <typename Facts>
bool HasRoomForFact(const Facts& facts, std::string_view name, std::string_view json) {
  return facts.size() < kMaxFacts && FactBytes(facts) + name.size() + json.size() <= kMaxFactBytes;
}

// Returns whether the signal is reported under its own name. Other signals are reported as signal/NAME, so an agent can
// neither create a metric nor change a metric that the trainer measures.
inline bool HasOwnMetric(std::string_view signal) {
  constexpr std::array<std::string_view, 6> kOwn = {
      "agent/completion_seconds", "agent/cpu_seconds", "agent/crash", "agent/flood", "agent/timeout",
      "agent/tool_error_rate"};
  return std::find(kOwn.begin(), kOwn.end(), signal) != kOwn.end();
}

}  // namespace ingot::tree
