// UpdateSpread holds the sums of a step's update variance (update_variance.h), over parameters and over ranks.
#pragma once

#include <algorithm>
#include <cstdint>

namespace ingot::trainer {

// Plain values: ranks send one another their bytes.
struct UpdateSpread {
  double apart = 0;    // mean over the sampled groups of |g_i - g|^2
  double length = 0;   // |g|^2
  int64_t groups = 0;  // sampled; 0 = not measured in this step

  void Add(const UpdateSpread& other) {
    apart += other.apart;
    length += other.length;
    groups = std::max(groups, other.groups);
  }
};

}  // namespace ingot::trainer
