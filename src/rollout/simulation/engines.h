// Simulates rollout engines, to compare ways to choose an engine (router.h) on a trace.
//
//   prefill     an engine computes one prompt at a time, in order of arrival, at a fixed rate, without the prefix
//               that is in its cache
//   decode      a step takes decode_seconds * (1 + requests in the step / 32) and yields one token for each of them; it
//               does not slow down prefill
//   cache       the least recently used prefixes are evicted; with a new version, all of them become useless, and
//               requests in progress do not add to it
//   episodes    up to `episodes` run at once; when one ends, the next one in the trace starts
//
// Pure and deterministic: the same trace and options give the same report.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "rollout/routing/router_options.h"
#include "rollout/simulation/trace.h"

namespace ingot::rollout {

struct EngineSimulationOptions {
  RouterOptions router{};
  int engines = 4;
  double prefill_rate = 8000;     // prompt tokens per second and engine
  double decode_seconds = 0.012;  // duration of a step with few requests
  double last_engine_speed = 1;   // speed of the last engine relative to the others; at most 1
  int64_t cache_tokens = 400'000;
  double version_seconds = 120;  // time between two versions; 0 = a single version
  int episodes = 64;
  double warmup_seconds = 60;  // calls that arrive earlier are not reported, except in `seconds`

  absl::Status Validate() const;
};

struct EngineSimulationReport {
  int64_t calls = 0, prompt_tokens = 0, computed_tokens = 0;
  double ttft_p50 = 0, ttft_p99 = 0;  // time to first token, in seconds
  double seconds = 0;                 // until the last call has ended
  int64_t moved = 0, stayed = 0;      // RouterStats
  double cost_error = 0;

  double computed_share() const {
    return prompt_tokens == 0 ? 0 : static_cast<double>(computed_tokens) / static_cast<double>(prompt_tokens);
  }
};

absl::StatusOr<EngineSimulationReport> SimulateEngines(const Trace& trace, const EngineSimulationOptions& options);

// Returns at most `most` of the trace's prompts, in session order, to measure routing decisions.
std::vector<std::vector<int32_t>> PromptsOf(const Trace& trace, size_t most);

// Sends each prompt to a Router and ends it, as an EngineSet does. Only the time that this takes matters.
void RoutePrompts(std::span<const std::vector<int32_t>> prompts, const EngineSimulationOptions& options);

}  // namespace ingot::rollout
