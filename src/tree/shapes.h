// Named workloads: calls shaped like calls of agents' episodes, with made-up tokens. For benchmarks and tests.
//
//   dialogue-N    N turns over a prompt of 4K; a turn is 1K, half of it sampled; the next turn continues it
//   thinking-N    as dialogue-N, but later turns do not see a turn's thought, half of its sampled tokens
//   summary-N     as dialogue-N, but after every 10 turns a summary of 512 tokens replaces the history
//   window-N      as dialogue-N, but a call's context is the prompt and the last 10 turns
//   system-G      one system prompt of 8K over G groups of 4 samples; task and answer are 512 each
//   group-G-Pk    G samples of 1K over one prompt of P K
//
// `scale` multiplies every length; the least length is one token. Deterministic.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "tree/forest.h"

namespace ingot::tree {

// The named shapes of the published figures, in their order.
std::vector<std::string> WorkloadShapes();

// The calls of a shape, one of the forms above with N in [1, 10000], G in [1, 1000] and P in [1, 1000]. Ids are in
// [0, vocab), vocab at least 2. Log-probs are -1, versions 0. INVALID_ARGUMENT: an unknown shape (the error names the
// known ones), or a scale that is not a number above 0.
absl::StatusOr<std::vector<CallPath>> MakeWorkload(const std::string& shape, double scale, int32_t vocab);

}  // namespace ingot::tree
