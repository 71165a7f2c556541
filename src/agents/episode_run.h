// One episode, from its admission to what is to be reported: folders, files, set-up, the agent, the verifier, clean-up.
// Knows nothing of the gateway. When it returns, none of the episode's processes runs any more.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "agents/recipe.h"
#include "proto/gateway.pb.h"
#include "sandbox/process.h"

namespace ingot::agents {

// Why an episode failed; the names stand in metrics.
//   task      its payload is no JSON object, or lacks a field that a template names
//   sandbox   no folder, file or process could be made
//   setup     a set-up command did not exit with 0
//   crash     the agent exited with another code than 0, or died of a signal
//   timeout   the agent ran past its time
//   flood     the agent wrote too much
//   verifier  the verifier broke
//   gateway   the gateway did not take the reward, or the end
//   stopped   the runner was stopped: no fault of the episode's, and no failed attempt of its sample
struct EpisodeReport {
  std::string cause;   // empty: finished
  std::string detail;  // for people: why it failed, or what the verifier said
  bool has_reward = false;
  double reward = 0;
  // With a reward: agent/timeout, agent/crash, agent/flood and answer_malformed too, 0 where it was not so.
  std::map<std::string, double> signals;
  bool agent_ran = false;
  double completion_s = 0;  // wall time of the agent
  double cpu_s = 0;         // of the agent and what it waited for
};

struct EpisodeContext {
  std::string work_root;
  std::string cwd;
  const sandbox::Cancellation* cancel = nullptr;
  // Asked once, for an episode that failed and whose recipe keeps such; true: its folder stays.
  std::function<bool()> may_keep;
};

// Blocks until the episode is over. Never throws; every trouble is in the report.
EpisodeReport RunEpisode(const Recipe& recipe, const v1::EpisodeOpenResponse& episode, const EpisodeContext& context);

// `text` with every byte that is no valid UTF-8 as '?': agents print what they like, and protos carry UTF-8 only.
std::string ValidUtf8(const std::string& text);

// The last line of `text` that is not blank, without white space around it; nothing if there is none.
std::optional<std::string> LastLine(const std::string& text);

}  // namespace ingot::agents
