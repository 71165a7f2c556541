// The kinds of causes for which an episode fails; EpisodeReport lists the causes (episode_run.h).
#pragma once

#include <string>

namespace ingot::agents {

// The cause of an attempt that does not count.
inline constexpr char kStopped[] = "stopped";
inline constexpr char kNoSnapshot[] = "snapshot";

// A failure of the machine or the configuration, not of this one agent: others will fail the same way.
inline bool IsOfSetup(const std::string& cause) {
  return cause == "sandbox" || cause == "disk" || cause == kNoSnapshot || cause == "setup" || cause == "mcp" ||
         cause == "service" || cause == "task" || cause == "verifier" || cause == "gateway";
}

}  // namespace ingot::agents
