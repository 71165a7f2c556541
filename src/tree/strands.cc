#include "tree/strands.h"

#include <algorithm>

namespace ingot::tree {

StrandPlan PlanStrands(std::span<const int32_t> positions, int32_t first_query) {
  StrandPlan plan;
  std::vector<PathRun> path;  // the current strand's path: its ancestors' runs, then its own
  const auto rows = static_cast<int32_t>(positions.size());
  for (int32_t row = 0, end; row < rows; row = end) {
    const int32_t depth = positions[row];
    for (end = row + 1; end < rows && positions[end] == positions[end - 1] + 1;) ++end;
    // Runs below the fork are not part of this path. An ancestor's run that continues past the fork ends where this run
    // begins.
    while (!path.empty() && path.back().depth >= depth) path.pop_back();
    path.push_back({depth, row});
    const int32_t first = std::max(row, first_query);
    if (first >= end) continue;
    plan.strands.push_back({first, depth + first - row, end - first, static_cast<int32_t>(plan.runs.size()),
                            static_cast<int32_t>(path.size())});
    plan.runs.insert(plan.runs.end(), path.begin(), path.end());
  }
  return plan;
}

}  // namespace ingot::tree
