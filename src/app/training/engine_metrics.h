// Adds the engine's metrics to a step's metrics. They describe the changes in the engine's status since the previous
// step.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "proto/rollout.pb.h"
#include "rollout/client.h"

namespace ingot::app {

// Not thread safe.
class EngineMetrics {
 public:
  // Starts counting now. REQUIRES: `engine` outlives this object.
  explicit EngineMetrics(rollout::Client& engine);

  // Adds the metrics for `step`, which produced `version`. Adds none if the engine does not answer.
  void Add(int64_t step, int64_t version, std::map<std::string, double>& metrics);

 private:
  // Adds the number of ids that drafters proposed, how many of them were verified, sampled, and dropped, and whether
  // drafting was off.
  void AddSpeculation(const v1::EngineStatusResponse& status, std::map<std::string, double>& metrics);

  // Adds what an engine would gain from the first version's draft head, from its new counts.
  void AddShadow(int64_t drafted, int64_t accepted, const v1::EngineStatusResponse& status,
                 std::map<std::string, double>& metrics) const;

  // Adds what the engines read from their KV store and wrote to it. Adds nothing if they have none.
  void AddStore(const v1::EngineStatusResponse& status, std::map<std::string, double>& metrics);

  // Adds what the engines report about other projects' servers: the slowest server's times, and new counts.
  void AddServers(const v1::EngineStatusResponse& status, std::map<std::string, double>& metrics);

  // Adds the latency from the optimizer's step to the first token sampled at the newest version that has such a token.
  // Each version is reported once. That version is this step's, or the previous one if its first token was sampled
  // after that step was reported.
  void AddFirstToken(const v1::EngineStatusResponse& status, std::map<std::string, double>& metrics);

  rollout::Client& engine_;
  v1::EngineStatusResponse at_start_, before_;  // before_ is the status at the previous step
  bool reported_ = false;
  int64_t newest_ = 0;  // version that is currently being reported
  // time from the optimizer's step until the version was sent, for versions whose first token has not been reported yet
  std::map<int64_t, double> until_sent_ms_;
};

}  // namespace ingot::app
