// Samples the calls for the probe, which measures the numerical mismatch between engine and trainer (law 3). The engine
// samples calls at exactly one version, and the trainer scores them at the same version. The mismatch is the difference
// between the log-probs.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "rollout/client.h"
#include "tree/forest.h"

namespace ingot::app {

// Samples at least `tokens` tokens at `version`, with one call per context and equal shares of the tokens. Returns the
// calls that ran completely at `version` with unmixed KV. Retries other calls a few times, because an engine may stop
// during a call, or may have an older version if it has just joined. Returns an error, such as DEADLINE_EXCEEDED after
// `timeout`, if no call succeeded.
absl::StatusOr<std::vector<tree::CallPath>> SampleProbe(rollout::Client& engine, int64_t version, int64_t tokens,
                                                        const std::vector<std::vector<int32_t>>& contexts,
                                                        float temperature, uint64_t seed,
                                                        std::chrono::milliseconds timeout,
                                                        const base::Clock& clock = base::Clock::Real());

}  // namespace ingot::app
