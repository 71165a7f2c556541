// Packing without a tree, the two ways others train: what tree training is measured against. Both give a forest of
// plain causal sequences side by side, with the same loss entries as the merged one.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "tree/forest.h"

namespace ingot::tree {

// One sample per request: every call that sampled something by itself. Indices into `calls`.
std::vector<std::vector<int32_t>> SeparateCalls(std::span<const CallPath> calls);

// Chain-merged: a call that another one continues token for token is trained within it, once. A sequence per leaf of
// the merged trie; where the trie forks, what stands before the fork is repeated. The longest call of a sequence holds
// the others.
std::vector<std::vector<int32_t>> ChainedCalls(std::span<const CallPath> calls);

// Every document packed by PackForest, one behind the other; none sees another. Errors as PackForest.
absl::StatusOr<PackedForest> PackDocuments(std::span<const CallPath> calls,
                                           std::span<const std::vector<int32_t>> documents);

}  // namespace ingot::tree
