// Named workloads: what agents' episodes look like as calls, with made-up tokens. For benchmarks and tests.
//
//   dialogue-N    N turns over a prompt of 4K; a turn is 1K, half of it sampled; the next turn continues it
//   thinking-N    the same, but what was thought (half of what was sampled) is dropped from the next turn's context
//   summary-N     the same as dialogue-N, but after every 10 turns the history is replaced by a summary of 512 tokens
//   window-N      the same as dialogue-N, but a call's context is the prompt and the last 10 turns
//   system-G      one system prompt of 8K over G groups of 4 samples; task and answer are 512 each
//   group-G-Pk    G samples of 1K over one prompt of P K
//
// `scale` multiplies every length (and is not rounded away: no piece is shorter than a token). Deterministic.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "tree/forest.h"

namespace ingot::tree {

// The named shapes of the published figures, in their order.
std::vector<std::string> WorkloadShapes();

// The calls of a shape: any of the forms above, N in [1, 10000], G in [1, 1000], P in [1, 1000]. Ids are in [0, vocab),
// vocab at least 2. Log-probs are -1, versions 0. INVALID_ARGUMENT names the known shapes, or says that scale is not a
// number above 0.
absl::StatusOr<std::vector<CallPath>> MakeWorkload(const std::string& shape, double scale, int32_t vocab);

}  // namespace ingot::tree
