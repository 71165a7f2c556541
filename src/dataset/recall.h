// Chooses episodes by recall (Context-1): all with high recall, fewer with low recall, and a small share with recall 0.
// Requires two passes over the same episodes: call Add for each, then Decide, then Keeps for each.
//
//   recall >= high      kept
//   0 < recall < high   kept with probability recall / high, based on the episode's id
//   recall 0            at most `zero_share` of all kept episodes, regardless of the order of calls
//
// Not thread safe.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace ingot::dataset {

struct RecallRule {
  double high = 0.8;         // (0, 1]
  double zero_share = 0.05;  // [0, 1)
};

class RecallChoice {
 public:
  explicit RecallChoice(RecallRule rule) : rule_(rule) {}

  void Add(const std::string& episode_id, double recall);
  // Chooses among the episodes with recall 0. REQUIRES: every episode has been added.
  void Decide();
  bool Keeps(const std::string& episode_id, double recall) const;

 private:
  // Returns whether to keep an episode based on its recall. REQUIRES: recall > 0.
  bool KeepsFound(const std::string& episode_id, double recall) const;

  const RecallRule rule_;
  int64_t found_ = 0;                                    // kept episodes with a recall above 0
  std::vector<std::pair<uint64_t, std::string>> zeros_;  // sorted by their random draw
  std::set<std::string> kept_zeros_;
};

}  // namespace ingot::dataset
