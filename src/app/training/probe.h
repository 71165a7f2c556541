// The probe of law 3: calls that the engine samples now, at exactly one version, for the trainer to score at the same
// version. The difference of the log-probs is the system's numerical mismatch.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "rollout/client.h"
#include "tree/forest.h"

namespace ingot::app {

// Samples at least `tokens` tokens at `version`: one call on each of the contexts, with equal shares of the tokens.
// Returns the calls that ran wholly at `version` with unmixed KV; it retries the others a few times, because an engine
// may end during its call, and an engine that just joined may have an older version. An error, such as
// DEADLINE_EXCEEDED after `timeout`, if there is no call at all.
absl::StatusOr<std::vector<tree::CallPath>> SampleProbe(rollout::Client& engine, int64_t version, int64_t tokens,
                                                        const std::vector<std::vector<int32_t>>& contexts,
                                                        float temperature, uint64_t seed,
                                                        std::chrono::milliseconds timeout,
                                                        const base::Clock& clock = base::Clock::Real());

}  // namespace ingot::app
