// Runs one admitted episode and returns its report. Handles folders, files, setup, the agent, the verifier, and
// cleanup, but does not access the gateway. On return, all of the episode's processes have ended.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "agents/gateway_access.h"
#include "agents/live_episode.h"
#include "agents/mcp/mcp_bridge.h"
#include "agents/recipe.h"
#include "proto/gateway.pb.h"
#include "sandbox/image/image.h"
#include "sandbox/process.h"
#include "sandbox/substrate.h"

namespace ingot::agents {

// An episode's result, for the gateway and for metrics. Failure causes:
//   task      the task's payload is not a JSON object, or lacks a field that a template uses
//   sandbox   a sandbox, file, or process could not be created, or failed
//   setup     a setup command did not exit with 0
//   mcp       an MCP server did not start or answer
//   disk      the disk for working directories was full while a command ran
//   crash     the agent exited with a code other than 0, was killed by a signal, or left files that cannot be judged
//   timeout   the agent exceeded its time limit
//   flood     the agent exceeded its output limit or its sandbox's file limit
//   verifier  the verifier failed
//   gateway   the gateway rejected the reward or the request to end the episode
//   snapshot  the runner does not have the snapshot that the episode starts from
//   stopped   the runner was stopped; not counted as a failed attempt at the sample
struct EpisodeReport {
  std::string cause;   // empty = finished
  std::string detail;  // human-readable: why it failed, or the verifier's message
  bool has_reward = false;
  double reward = 0;
  // True = the reward is not a judgment but a 0 for an agent that misbehaved. It is used only if no reward was posted.
  bool by_default = false;
  // If there is a reward, includes agent/timeout, agent/crash, agent/flood, and answer_malformed (1 = yes, 0 = no).
  std::map<std::string, double> signals;
  std::map<std::string, std::string> facts;  // facts from the judgment: JSON by name
  // The files of a trunk that was ended at its fork. In that case, there is no cause and no reward.
  std::shared_ptr<const sandbox::Snapshot> fork;
  bool agent_ran = false;
  double completion_s = 0;  // the agent's wall time
  double cpu_s = 0;         // CPU time of the agent and of the processes that it waited for
};

struct EpisodeContext {
  sandbox::Substrate* substrate = nullptr;  // must not be null
  sandbox::ImageStore* images = nullptr;    // null = recipes do not use images
  GatewayAccess* gateway_access = nullptr;  // null = sandboxes share the machine's network
  McpBridge* mcp = nullptr;                 // null = sandboxes have no remote MCP servers or reach them directly
  std::string cwd;
  const sandbox::Cancellation* cancel = nullptr;  // null = the episode cannot be cancelled
  LiveEpisode* live = nullptr;                    // null = other threads cannot take snapshots or end the agent
  // The files with which a leaf starts; null = empty folders. Setup already ran in the trunk.
  std::shared_ptr<const sandbox::Snapshot> from;
  // Returns the assistant's messages so far as a JSON array, for the verifier. Null = not available.
  std::function<absl::StatusOr<std::string>()> messages;
  // Called once for a failed episode of a recipe with keep_failed. True = its folder is kept.
  std::function<bool()> may_keep;
};

// Blocks until the episode is over. Never throws. The report contains every failure.
EpisodeReport RunEpisode(const Recipe& recipe, const v1::EpisodeOpenResponse& episode, const EpisodeContext& context);

// Returns the last non-blank line in `text` without surrounding whitespace, or nullopt if there is none.
std::optional<std::string> LastLine(const std::string& text);

}  // namespace ingot::agents
