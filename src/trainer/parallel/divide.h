// The division of a batch's calls among ranks. Pure; no torch.
//
//   calls in the order of their trie     a b c d | a b c e | a b f | g h i | g h k
//   three ranks                          \_______________/   \___/   \_____________/
//
// In the order of their trie, calls that share a prefix are adjacent, and each rank gets a run of adjacent calls. The
// cost of a run is its merged rows and the pairs of tokens that see one another; a prefix that two ranks share counts
// on both. The division minimizes the greatest cost of a rank over all runs in this order.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tree/forest.h"

namespace ingot::trainer {

// Relative costs, forward and backward together.
struct RowCosts {
  double row = 1;          // of a merged row through the layers
  double pair = 0;         // of a (query, key) pair that is not masked, in layers without a window
  double loss_entry = 0;   // of a row of logits
  double window_pair = 0;  // of a pair within the window, in layers with one
  int64_t window = 0;      // 0 = none
};

// The rank of each call, in [0, ranks); -1 = the call sampled nothing and bears no loss. Rank 0 gets calls if any rank
// does.
// REQUIRES: ranks >= 1.
std::vector<int32_t> DivideCalls(std::span<const tree::CallPath> calls, int ranks, const RowCosts& costs);

}  // namespace ingot::trainer
