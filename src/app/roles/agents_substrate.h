// Creates the sandbox substrate for a run's agents. Sets the paths that agents must not see and the programs that they
// need, and reports the probe result.
#pragma once

#include <memory>
#include <string>

#include "agents/options.h"
#include "app/run/run_config.h"
#include "app/run/run_dir.h"
#include "base/metrics.h"
#include "sandbox/substrate.h"

namespace ingot::app {

// Probes the machine, prints and logs the result, and warns if agents can reach the run's files. Returns the errors of
// sandbox::MakeSubstrate. Call this before the warm start, so that a run that would fail here does not train first.
absl::StatusOr<std::unique_ptr<sandbox::Substrate>> MakeAgentsSubstrate(const RunConfig& config, const RunDir& dir);

// Returns the substrate for the Python reward functions that the reward stage calls. No agent runs there.
absl::StatusOr<std::shared_ptr<sandbox::Substrate>> MakeRewardSubstrate(const RunConfig& config);

// Returns the run's Runner options: `config.agents`, with the Harbor tasks' folders as the folders of their images.
agents::RunnerOptions RunnerOptionsOf(const RunConfig& config);

// Reports the probe result as a gauge with value 1 and the result's parts as labels.
void ReportProbeResult(const sandbox::ProbeResult& probe_result, base::Metrics& metrics);

}  // namespace ingot::app
