// Generates named workloads for benchmarks and tests: calls shaped like agent episodes, with synthetic tokens.
//
//   dialogue-N    N turns after a 4K prompt; each turn is 1K, half of it sampled, and continues the previous turn
//   thinking-N    like dialogue-N, but later turns do not see a turn's reasoning (half of its sampled tokens)
//   summary-N     like dialogue-N, but after every 10 turns a 512-token summary replaces the history
//   window-N      like dialogue-N, but a call's context is the prompt and the last 10 turns
//   system-G      one 8K system prompt for G groups of 4 samples; task and answer are 512 each
//   group-G-Pk    G samples of 1K each for one prompt of P K
//
// `scale` multiplies every length, with a minimum of one token. Deterministic.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "tree/forest.h"

namespace ingot::tree {

// Returns the names of the shapes used in the published results, in the same order.
std::vector<std::string> WorkloadShapes();

// Returns the calls for a shape, which has one of the forms above with N in [1, 10000], G in [1, 1000], and P in [1,
// 1000]. Ids are in [0, vocab), and vocab must be at least 2. Log-probs are -1, and versions are 0. Returns
// INVALID_ARGUMENT, with the known names, for an unknown shape, or if the scale is not a positive number.
absl::StatusOr<std::vector<CallPath>> MakeWorkload(const std::string& shape, double scale, int32_t vocab);

}  // namespace ingot::tree
