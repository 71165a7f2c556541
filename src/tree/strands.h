// A packed forest as paths: the layout of exact training (docs/internals/architecture.md, "The token tree").
//
//   packed stream, DFS pre-order          strands                    runs of the path (depth -> row)
//   row       0 1 2 3 4 5 6               rows 0-4, depths 0-4       0 -> 0
//   token     a b c d e f g               rows 5-5, depth  4         0 -> 0, 4 -> 5
//   position  0 1 2 3 4 4 1               rows 6-6, depth  1         0 -> 0, 1 -> 6
//
// A strand is a run of packed rows in which each row is the child of the row before. Its path, from the root to its
// last row, is a few runs of rows. Attention walks a strand's path as a separate sequence, keys numbered by depth. It
// then adds up the same tiles in the same order as rollout did for that sequence: the rows are equal bit for bit. (In
// the packed stream itself, tiles after a fork are cut elsewhere.) No row is computed twice, and none moves.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ingot::tree {

// The keys of a path from `depth` to the next run: packed rows row, row + 1, ...
struct PathRun {
  int32_t depth;
  int32_t row;
};

// The queries of a strand and the place of their path's keys.
struct Strand {
  int32_t first_query;  // packed row
  int32_t depth;        // of row first_query
  int32_t queries;      // > 0
  int32_t first_run;    // index into StrandPlan::runs
  int32_t runs;
  int32_t keys() const { return depth + queries; }
};

struct StrandPlan {
  std::vector<Strand> strands;  // ascending by row; every row from first_query on is in exactly one
  std::vector<PathRun> runs;
};

// `positions`: the depths of a forest's packed rows in DFS pre-order (PackedForest::positions). Rows below
// `first_query` are only keys, such as a prefix computed before. Linear in the rows and the runs; a strand has one run
// per fork at which its path leaves a first child.
// REQUIRES: positions[i] <= positions[i - 1] + 1, and positions[0] == 0.
StrandPlan PlanStrands(std::span<const int32_t> positions, int32_t first_query = 0);

}  // namespace ingot::tree
