// Where each strand of a packed stream has the keys of its path, as the attention kernels take it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/attention.h"

namespace ingot::trainer {

// For kernels::PathAttentionForward: attention whose tiles are cut along each path, as rollout's are, so that the rows
// are bit-equal to rollout's (tree/strands.h).
class StrandPaths {
 public:
  // `positions` are the depths of all keys; the first `first_query` of them come before the queries (a prefix computed
  // earlier).
  StrandPaths(std::span<const int32_t> positions, int32_t first_query);
  StrandPaths(const StrandPaths&) = delete;
  StrandPaths& operator=(const StrandPaths&) = delete;

  std::span<const kernels::AttentionSequence> paths() const { return paths_; }

 private:
  std::vector<kernels::KeyRun> runs_;
  std::vector<kernels::AttentionSequence> paths_;  // point into runs_
};

}  // namespace ingot::trainer
