// UpdateSpread holds the sums for a step's update variance (update_variance.h), over parameters and ranks.
#pragma once

#include <algorithm>
#include <cstdint>

namespace ingot::trainer {

// Plain values: ranks exchange the raw bytes.
struct UpdateSpread {
  double apart = 0;    // mean over the sampled groups of |g_i - g|^2
  double length = 0;   // |g|^2
  int64_t groups = 0;  // number of sampled groups; 0 = not measured in this step

  void Add(const UpdateSpread& other) {
    apart += other.apart;
    length += other.length;
    groups = std::max(groups, other.groups);
  }
};

}  // namespace ingot::trainer
