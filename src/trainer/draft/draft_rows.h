// Chooses the rows of a packed forest that a draft head is trained on. Plain values without torch.
//
// A teacher is a row of the policy, at a temperature, from which loss tokens were sampled. For a path a, b, c in the
// tree and a teacher at c, the head predicts the teacher at every depth:
//
//   depth 1   output(c) = head(hidden state of b, token c)
//   depth 2   output(c) = head(depth 1's output(b), token c),  output(b) = head(hidden state of a, token b)
//
// An output is computed once per row and depth, no matter how many rows read it.
//
// A teacher's weight is the number of chosen loss tokens that were sampled from it, so the loss is a mean over tokens,
// no matter how calls are merged. Tokens are chosen by a hash of (seed, call, offset).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tree/forest.h"

namespace ingot::trainer {

struct DraftRows {
  struct Teacher {
    int32_t row = 0;
    float temperature = 1;
    double weight = 0;  // number of tokens
  };
  // The head's outputs at one depth. All vectors except the last two have one element per output.
  struct Depth {
    std::vector<int32_t> rows;      // ascending
    std::vector<int32_t> sources;   // index in DraftRows::hidden (depth 1) or in the previous depth's rows
    std::vector<int32_t> taught;    // outputs with a teacher, by index in `rows`
    std::vector<int32_t> teachers;  // their teachers; an output may have several, at different temperatures
  };

  std::vector<Teacher> teachers;  // ascending by (row, temperature)
  std::vector<int32_t> hidden;    // rows whose hidden states depth 1 reads, ascending
  std::vector<Depth> depths;
  double tokens = 0;  // number of chosen tokens, the sum of the weights

  // Returns the teacher's index; -1 = not chosen.
  int64_t Find(int32_t row, float temperature) const;
};

// Chooses up to `most` loss tokens and, for these, depths 1 to `depths`. Rows with fewer ancestors have fewer depths.
DraftRows ChooseDraftRows(const tree::PackedForest& forest, std::span<const tree::CallPath> calls, int64_t depths,
                          int64_t most, uint64_t seed);

}  // namespace ingot::trainer
