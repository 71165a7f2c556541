// Computes sums over each sequence's tokens, for objectives that compare whole sequences.
#pragma once

#include <vector>

#include "trainer/objectives/objective.h"

namespace ingot::trainer {

struct SequenceSums {
  double log_ratio = 0;  // sum of logprob - anchor
  double weight = 0;     // sum of the tokens' weights, including masked tokens
  int64_t tokens = 0;
};

// `anchor` has the log-prob to compare with for each entry. Sums are zero for a sequence without tokens.
inline std::vector<SequenceSums> SumSequences(const LossEntries& entries, std::span<const double> anchor) {
  std::vector<SequenceSums> sums(static_cast<size_t>(entries.sequence_count));
  for (size_t i = 0; i < entries.logprobs.size(); ++i) {
    SequenceSums& sum = sums[static_cast<size_t>(entries.sequences[i])];
    sum.log_ratio += entries.logprobs[i] - anchor[i];
    sum.weight += entries.weights[i];
    ++sum.tokens;
  }
  for (size_t s = 0; s < entries.sequence_weights.size(); ++s) sums[s].weight = entries.sequence_weights[s];
  return sums;
}

}  // namespace ingot::trainer
