// A packed forest cut into parts that each fit one forward and backward pass. A part sees the keys and values of its
// ancestors in earlier parts.
//
//   packed     0 1 2 3 4 5 6 7 8 9        parts of at most 4 tokens
//   path       a b c d e f . . . .        [0,4)  a b c d      exports a b c d
//                    `---- g h . .        [4,8)  e f g h      prefix a b c d, exports nothing
//                  `---------- i j        [8,10) i j          prefix a b
//
// A part is a range of rows of the packed stream. Its PREFIX is the set of earlier rows that its first row sees; no
// other row of the part sees an earlier row beyond these. Its EXPORTS are its own rows that a later part sees. Both are
// in path order. A later part sees a prefix of an earlier part's exports. Parts run forward in order and backward in
// reverse: a part's gradient is complete once every part that saw its exports has given its own.
//
// The cut. A part that later parts see stays in memory until they are done, with its prefix. So a part may end only
// where (1) no row of it is seen later, or (2) all of its prefix stays visible and at least half of its rows are
// exports. The last such end within the budget is chosen. This way no part stays in memory for another part that has
// left the path. A part stays whole: if its path went back up to a fork, it holds more rows than later parts see.
//
// The one assumption about the forest: the ranges [j, visible_end[j]) nest. Pure functions.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <vector>

#include "tree/forest.h"

namespace ingot::tree {

struct ForestPart {
  // The first `rows` exports of an earlier part.
  struct Source {
    int32_t part;  // its index
    int32_t rows;
  };
  int32_t begin = 0, end = 0;    // packed rows
  std::vector<Source> prefix;    // by part, ascending
  int32_t prefix_rows = 0;       // of all sources
  std::vector<int32_t> exports;  // rows from `begin`, ascending
  // Own rows with a child in a later part, from `begin`, ascending: a recurrence passes on the states after them.
  std::vector<int32_t> branches;
  // An own row whose parent is in an earlier part.
  struct Crossing {
    int32_t row;     // from `begin`
    int32_t part;    // the earlier part
    int32_t branch;  // the parent: an index into that part's `branches`
  };
  std::vector<Crossing> crossings;  // by row
  int32_t last_user = 0;            // index of the last part that sees an export; its own index = none
  int32_t loss_rows = 0;            // rows that predict the token of a loss entry
  int64_t visible_pairs = 0;        // unmasked (query, key) pairs, keys of the prefix included
  // [prefix_rows + size()], by key: the prefix, then the part's own rows. Values are query indices, from prefix_rows
  // on.
  std::vector<int32_t> visible_end;

  int32_t size() const { return end - begin; }
  bool seen_later(int32_t self) const { return last_user > self; }
};

// Parts of at most `max_tokens` rows (at least 1), in packed order; none for an empty forest. Linear, in time and
// memory, in the rows and in the prefix of each part.
std::vector<ForestPart> CutForest(const PackedForest& forest, int64_t max_tokens);

// The parent of each of a part's rows: a row from `begin`; ~i = the parent of crossings[i]; kRoot = no parent. In the
// form of kernels::PlanRows. Linear in the rows.
std::vector<int32_t> ParentsIn(const PackedForest& forest, const ForestPart& part);
inline constexpr int32_t kRoot = std::numeric_limits<int32_t>::min();

// Calls start(i) for each part in turn, and finish(i) as soon as no later part sees part i. All parts that saw part i
// are finished before it. Of the waiting parts, the last one started is finished first.
void RunParts(std::span<const ForestPart> parts, const std::function<void(size_t)>& start,
              const std::function<void(size_t)>& finish);

// The indices of the calls that sampled a token, the longest first, calls of equal length in their order. Packed in
// this order, every fork's deepest path comes before its other branches: in a cut forest no branch waits for a deeper
// branch.
std::vector<int32_t> OrderChainFirst(std::span<const CallPath> calls);

}  // namespace ingot::tree
