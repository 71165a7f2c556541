// Converts a packed stream's strands and the positions of their paths' keys to the attention kernels' format.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/attention/attention.h"

namespace ingot::trainer {

// Builds the input for kernels::PathAttentionForward, which divides each path into tiles as rollout does, so its rows
// are bit-identical to rollout's (tree/strands.h).
class StrandPaths {
 public:
  // `positions` are the depths of all keys. The first `first_query` keys precede the queries and are a prefix that was
  // computed earlier.
  StrandPaths(std::span<const int32_t> positions, int32_t first_query);
  StrandPaths(const StrandPaths&) = delete;
  StrandPaths& operator=(const StrandPaths&) = delete;

  std::span<const kernels::AttentionSequence> paths() const { return paths_; }

 private:
  std::vector<kernels::KeyRun> runs_;
  std::vector<kernels::AttentionSequence> paths_;  // point into runs_
};

}  // namespace ingot::trainer
