// The engine's part of a step's metrics: how its status changed since the previous step.
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
  // Counts from here. `engine` outlives it.
  explicit EngineMetrics(rollout::Client& engine);

  // Adds them to the metrics of `step`, which made `version`; none if the engine does not answer.
  void Add(int64_t step, int64_t version, std::map<std::string, double>& metrics);

 private:
  // The latency of the newest version that has sampled a token, once: from the optimizer's step to that token. The
  // version is this step's, or the previous version, whose first token came after its report.
  void AddFirstToken(const v1::EngineStatusResponse& status, std::map<std::string, double>& metrics);

  rollout::Client& engine_;
  v1::EngineStatusResponse at_start_, before_;  // before_: at the previous step
  bool reported_ = false;
  int64_t newest_ = 0;                       // the version of the report under way
  std::map<int64_t, double> until_sent_ms_;  // from the optimizer's step, of versions without a reported first token
};

}  // namespace ingot::app
