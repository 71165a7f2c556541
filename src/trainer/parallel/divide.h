// Which rank trains which calls of a batch. Pure; no torch.
//
//   calls in the order of their trie     a b c d | a b c e | a b f | g h i | g h k
//   three ranks                          \_______________/   \___/   \_____________/
//
// Calls stand in the order of their trie, so that those that share a prefix are neighbours; each rank gets a run of
// them. What a run costs is its merged rows and the pairs of tokens that see one another, so that a prefix which two
// ranks share counts on both. The greatest cost is the least that runs in this order can have.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tree/forest.h"

namespace ingot::trainer {

// Relative costs, forward and backward.
struct RowCosts {
  double row = 1;         // a merged row through the layers
  double pair = 0;        // a (query, key) pair that is not masked
  double loss_entry = 0;  // a row of logits
};

// Per call its rank, in [0, ranks); -1: it sampled nothing and bears no loss. Rank 0 gets calls if any rank does.
// REQUIRES: ranks >= 1.
std::vector<int32_t> DivideCalls(std::span<const tree::CallPath> calls, int ranks, const RowCosts& costs);

}  // namespace ingot::trainer
