// Packs calls without a tree, as other trainers do. This is the baseline for tree training. Both methods produce a
// forest of separate causal sequences with the same loss entries as the merged forest.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "tree/forest.h"

namespace ingot::tree {

// Returns one document per call that sampled a token, as indices into `calls`.
std::vector<std::vector<int32_t>> SeparateCalls(std::span<const CallPath> calls);

// Returns one document per leaf of the merged trie (chain merging). If one call continues another token for token, both
// are in one document. At a fork, each branch's document repeats the tokens before the fork. A document's longest call
// contains its other calls.
std::vector<std::vector<int32_t>> ChainedCalls(std::span<const CallPath> calls);

// Packs the documents with PackForest, one after another. Documents do not see each other. Returns INVALID_ARGUMENT as
// PackForest does, or if there are more tokens than int32 can index.
absl::StatusOr<PackedForest> PackDocuments(std::span<const CallPath> calls,
                                           std::span<const std::vector<int32_t>> documents);

}  // namespace ingot::tree
