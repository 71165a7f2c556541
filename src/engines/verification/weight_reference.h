// Computes Ingot's own log-probs for a version's weights. A server with these weights must report the same ones, up to
// rounding.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/status.h"
#include "weights/snapshot.h"

namespace ingot::engines {

// The log-probs of a prompt's ids, at temperature 1.
struct PromptScores {
  std::vector<float> logprobs;  // for ids 1 to n - 1, each given the ids before it
  std::vector<float> next;      // [vocab_size], for the id after the last one
};

// Used by one thread at a time.
class WeightReference {
 public:
  virtual ~WeightReference() = default;

  // Returns each prompt's scores. Blocks. A prompt has at least 2 ids.
  virtual absl::StatusOr<std::vector<PromptScores>> Score(const std::shared_ptr<const weights::Snapshot>& snapshot,
                                                          const std::vector<std::vector<int32_t>>& prompts) = 0;

  // Returns different weights with the same version, shapes, and types. Each tensor differs so much that a server that
  // still has the earlier tensor reports different log-probs.
  virtual absl::StatusOr<std::shared_ptr<const weights::Snapshot>> Perturb(
      const std::shared_ptr<const weights::Snapshot>& snapshot) = 0;
};

}  // namespace ingot::engines
