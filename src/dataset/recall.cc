#include "dataset/recall.h"

#include <algorithm>
#include <cmath>

#include "base/checksum.h"

namespace ingot::dataset {

void RecallChoice::Add(const std::string& episode_id, double recall) {
  if (recall > 0) {
    found_ += KeepsFound(episode_id, recall) ? 1 : 0;
  } else {
    zeros_.emplace_back(base::Checksum64(episode_id), episode_id);
  }
}

void RecallChoice::Decide() {
  // z <= share * (found + z). The small term is for shares such as 0.05, which have no exact binary form.
  const double most = rule_.zero_share * static_cast<double>(found_) / (1 - rule_.zero_share);
  const size_t count = std::min(zeros_.size(), static_cast<size_t>(std::floor(most + 1e-9)));
  std::sort(zeros_.begin(), zeros_.end());
  for (size_t i = 0; i < count; ++i) kept_zeros_.insert(zeros_[i].second);
}

bool RecallChoice::Keeps(const std::string& episode_id, double recall) const {
  return recall > 0 ? KeepsFound(episode_id, recall) : kept_zeros_.contains(episode_id);
}

bool RecallChoice::KeepsFound(const std::string& episode_id, double recall) const {
  if (recall >= rule_.high) return true;
  const double draw = static_cast<double>(base::Checksum64(episode_id) >> 11) * 0x1p-53;
  return draw < recall / rule_.high;
}

}  // namespace ingot::dataset
