// Splits a packed forest into paths, the layout for exact training (docs/internals/architecture.md, "The token tree").
//
//   packed stream, DFS pre-order          strands                    runs of the path (depth -> row)
//   row       0 1 2 3 4 5 6               rows 0-4, depths 0-4       0 -> 0
//   token     a b c d e f g               rows 5-5, depth  4         0 -> 0, 4 -> 5
//   position  0 1 2 3 4 4 1               rows 6-6, depth  1         0 -> 0, 1 -> 6
//
// A strand is a run of packed rows where each row is the child of the previous row. Its path, from the root to its last
// row, consists of a few runs of rows. Attention processes a strand's path as a separate sequence, with keys numbered
// by depth. It sums the same tiles in the same order as rollout, so the rows are bit-identical. (In the packed stream
// itself, tiles after a fork are cut at different positions.) Each row is computed once and stays in place.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ingot::tree {

// A path's keys from `depth` to the next run: packed rows row, row + 1, ...
struct PathRun {
  int32_t depth;
  int32_t row;
};

// A strand's queries and the location of its path's keys.
struct Strand {
  int32_t first_query;  // packed row
  int32_t depth;        // depth of row first_query
  int32_t queries;      // > 0
  int32_t first_run;    // index into StrandPlan::runs
  int32_t runs;
  int32_t keys() const { return depth + queries; }
};

struct StrandPlan {
  std::vector<Strand> strands;  // in ascending row order; every row >= first_query is in exactly one
  std::vector<PathRun> runs;
};

// `positions` are the depths of a forest's packed rows in DFS pre-order (PackedForest::positions). Rows below
// `first_query` are only keys, such as a prefix that was computed earlier. Linear in the rows and the runs. A strand's
// path has one run, plus one for each fork where it does not follow the first child. REQUIRES: positions[i] <=
// positions[i - 1] + 1, and positions[0] == 0.
StrandPlan PlanStrands(std::span<const int32_t> positions, int32_t first_query = 0);

}  // namespace ingot::tree
