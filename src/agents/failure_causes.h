// Classifies episode failure causes. EpisodeReport lists them (episode_run.h).
#pragma once

#include <string>

namespace ingot::agents {

// The causes of attempts that are not counted.
inline constexpr char kStopped[] = "stopped";
inline constexpr char kNoSnapshot[] = "snapshot";

// Returns true for failures caused by the machine or the configuration, because they would affect other agents as well.
inline bool IsOfSetup(const std::string& cause) {
  return cause == "sandbox" || cause == "disk" || cause == kNoSnapshot || cause == "setup" || cause == "mcp" ||
         cause == "service" || cause == "task" || cause == "verifier" || cause == "gateway";
}

}  // namespace ingot::agents
