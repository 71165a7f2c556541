// The substrate of a run's agents: the paths that they must not see, the programs that they must reach, and the line at
// the start that says what the probe found.
#pragma once

#include <memory>
#include <string>

#include "agents/options.h"
#include "app/run/run_config.h"
#include "app/run/run_dir.h"
#include "base/metrics.h"
#include "sandbox/substrate.h"

namespace ingot::app {

// Probes the machine, prints and logs the result, and warns where agents can reach the run's files. Errors as for
// sandbox::MakeSubstrate. Call it before the warm start: a run that would fail here must not train first.
absl::StatusOr<std::unique_ptr<sandbox::Substrate>> MakeAgentsSubstrate(const RunConfig& config, const RunDir& dir);

// The substrate of reward functions in Python that the reward stage calls, away from agents.
absl::StatusOr<std::shared_ptr<sandbox::Substrate>> MakeRewardSubstrate(const RunConfig& config);

// The options of the run's Runner: `config.agents`, with the folders of Harbor tasks as folders of their images.
agents::RunnerOptions RunnerOptionsOf(const RunConfig& config);

// The probe result as a gauge of 1, with its parts as labels.
void ReportProbeResult(const sandbox::ProbeResult& probe_result, base::Metrics& metrics);

}  // namespace ingot::app
