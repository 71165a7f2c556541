// RunEpisode runs one admitted episode and returns its report: folders, files, set-up, agent, verifier, clean-up. It
// does not know the gateway. When it returns, no process of the episode is left.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "agents/door.h"
#include "agents/live_episode.h"
#include "agents/mcp/mcp_bridge.h"
#include "agents/recipe.h"
#include "proto/gateway.pb.h"
#include "sandbox/image/image.h"
#include "sandbox/process.h"
#include "sandbox/substrate.h"

namespace ingot::agents {

// The result of an episode, for the gateway and for metrics. Causes of a failure:
//   task      the task's payload is not a JSON object, or lacks a field that a template names
//   sandbox   a sandbox, file or process could not be made, or broke
//   setup     a set-up command did not exit with 0
//   mcp       an MCP server did not start or answer
//   disk      the disk of the work folders was full while a command ran
//   crash     the agent exited with another code than 0, died of a signal, or left files that cannot be judged
//   timeout   the agent ran past its time
//   flood     the agent wrote more output than its limit, or more files than its sandbox may
//   verifier  the verifier broke
//   gateway   the gateway did not accept the reward or the end
//   snapshot  the runner does not hold the snapshot on which the episode begins
//   stopped   the runner was stopped; not counted as a failed attempt of its sample
struct EpisodeReport {
  std::string cause;   // empty = finished
  std::string detail;  // for people: the reason of the failure, or the verifier's remark
  bool has_reward = false;
  double reward = 0;
  // True: the reward is not a verdict but a 0 for an agent that misbehaved. It counts if no reward was posted.
  bool by_default = false;
  // With a reward, agent/timeout, agent/crash, agent/flood and answer_malformed are among them: 1 = it was so, 0 = not.
  std::map<std::string, double> signals;
  std::map<std::string, std::string> facts;  // of the verdict: JSON by name
  // For a trunk that was ended at its fork: the files that it left. Then there is neither a cause nor a reward.
  std::shared_ptr<const sandbox::Snapshot> fork;
  bool agent_ran = false;
  double completion_s = 0;  // wall time of the agent
  double cpu_s = 0;         // of the agent and the processes that it waited for
};

struct EpisodeContext {
  sandbox::Substrate* substrate = nullptr;  // never null
  sandbox::ImageStore* images = nullptr;    // null = recipes name none
  Door* door = nullptr;                     // null = sandboxes share the network
  McpBridge* mcp = nullptr;                 // null = sandboxes reach MCP servers elsewhere themselves, or have none
  std::string cwd;
  const sandbox::Cancellation* cancel = nullptr;  // null = the episode cannot be cancelled
  LiveEpisode* live = nullptr;                    // null = no other thread takes snapshots or ends the agent
  // The files on which a leaf begins; null = with empty folders. Set-up has run in the trunk.
  std::shared_ptr<const sandbox::Snapshot> from;
  // The assistant's messages of the episode so far, a JSON array, for its verifier. Null = unknown.
  std::function<absl::StatusOr<std::string>()> messages;
  // Called once for a failed episode of a recipe with keep_failed; true: its folder stays.
  std::function<bool()> may_keep;
};

// Blocks until the episode is over. Never throws: the report names every failure.
EpisodeReport RunEpisode(const Recipe& recipe, const v1::EpisodeOpenResponse& episode, const EpisodeContext& context);

// The last line of `text` that is not blank, without white space around it; nullopt = there is none.
std::optional<std::string> LastLine(const std::string& text);

}  // namespace ingot::agents
