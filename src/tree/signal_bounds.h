// Names and bounds of an episode's signals and facts. The gateway rejects a report that exceeds them.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

#include "base/printable.h"

namespace ingot::tree {

inline constexpr size_t kMaxSignals = 256;
inline constexpr size_t kMaxSignalName = 256;    // bytes, at least one
inline constexpr size_t kMaxFacts = 64;          // with names like signals
inline constexpr size_t kMaxFactBytes = 262144;  // of all facts of an episode, names and JSON together
// Signals of one report; the rest is reserved for the runner's own measurements.
inline constexpr size_t kMaxReportedSignals = kMaxSignals - 32;

// Whether a signal may have this name: 1 to kMaxSignalName bytes, all of them printable.
inline bool IsSignalName(std::string_view name) {
  return !name.empty() && name.size() <= kMaxSignalName && base::IsPrintable(name);
}

// Bytes of facts: a map from names to JSON.
template <typename Facts>
size_t FactBytes(const Facts& facts) {
  size_t bytes = 0;
  for (const auto& [name, json] : facts) bytes += name.size() + json.size();
  return bytes;
}

// Whether facts with one more stay within the bounds. REQUIRES: no fact has this name.
template <typename Facts>
bool HasRoomForFact(const Facts& facts, std::string_view name, std::string_view json) {
  return facts.size() < kMaxFacts && FactBytes(facts) + name.size() + json.size() <= kMaxFactBytes;
}

// Whether a signal is a metric under its own name. Every other signal is the metric signal/NAME, so that an agent can
// neither invent a metric nor change one that the trainer measures.
inline bool HasOwnMetric(std::string_view signal) {
  constexpr std::array<std::string_view, 6> kOwn = {
      "agent/completion_seconds", "agent/cpu_seconds", "agent/crash", "agent/flood", "agent/timeout",
      "agent/tool_error_rate"};
  return std::find(kOwn.begin(), kOwn.end(), signal) != kOwn.end();
}

}  // namespace ingot::tree
