// Divides a batch's calls among ranks. Pure functions that do not use torch.
//
//   calls in trie order                  a b c d | a b c e | a b f | g h i | g h k
//   three ranks                          \_______________/   \___/   \_____________/
//
// In trie order, calls that share a prefix are adjacent, and each rank gets a run of adjacent calls. A run's cost
// counts its merged rows and the pairs of tokens that see each other. A prefix shared by two ranks counts on both.
// Among all such divisions, chooses one with the lowest maximum cost per rank.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tree/forest.h"

namespace ingot::trainer {

// Relative costs, forward and backward combined.
struct RowCosts {
  double row = 1;          // cost of a merged row, in the layers
  double pair = 0;         // cost of an unmasked (query, key) pair, in layers without a window
  double loss_entry = 0;   // cost of a row of logits
  double window_pair = 0;  // cost of a pair within the window, in layers with a window
  int64_t window = 0;      // 0 = none
};

// Returns the rank for each call, in [0, ranks), or -1 if the call has no sampled tokens and bears no loss. Rank 0 gets
// calls if any rank does. REQUIRES: ranks >= 1.
std::vector<int32_t> DivideCalls(std::span<const tree::CallPath> calls, int ranks, const RowCosts& costs);

}  // namespace ingot::trainer
