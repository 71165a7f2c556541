// The strands of a packed stream with the places of their paths' keys, in the form of the attention kernels.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/attention/attention.h"

namespace ingot::trainer {

// Input of kernels::PathAttentionForward, whose tiles are cut along each path as rollout's are: its rows are bit-equal
// to rollout's (tree/strands.h).
class StrandPaths {
 public:
  // `positions` are the depths of all keys. The first `first_query` keys come before the queries: a prefix that was
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
