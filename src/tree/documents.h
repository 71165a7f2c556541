// Packing without a tree, as other trainers do it: the baseline of tree training. Both ways give a forest of plain
// causal sequences side by side, with the same loss entries as the merged forest.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "tree/forest.h"

namespace ingot::tree {

// One document per call that sampled a token. Indices into `calls`.
std::vector<std::vector<int32_t>> SeparateCalls(std::span<const CallPath> calls);

// Chain-merged: one document per leaf of the merged trie. A call that another call continues token for token is in that
// call's document, once. At a fork, each branch's document repeats the tokens before the fork. The longest call of a
// document holds the others.
std::vector<std::vector<int32_t>> ChainedCalls(std::span<const CallPath> calls);

// Packs each document by PackForest, one after the other; no document sees another. INVALID_ARGUMENT: as PackForest, or
// more tokens than int32 can index.
absl::StatusOr<PackedForest> PackDocuments(std::span<const CallPath> calls,
                                           std::span<const std::vector<int32_t>> documents);

}  // namespace ingot::tree
