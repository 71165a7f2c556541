// A packed forest cut into parts of bounded size: what is too large for one forward and backward pass is trained part
// by part, each seeing the keys and values of its ancestors.
//
//   packed     0 1 2 3 4 5 6 7 8 9        parts of at most 4 tokens
//   path       a b c d e f . . . .        [0,4)  a b c d      exports a b c d
//                    `---- g h . .        [4,8)  e f g h      prefix a b c d, exports nothing
//                  `---------- i j        [8,10) i j          prefix a b
//
// A part is a range of the packed stream. Its PREFIX are the rows before it that its first row sees, which are all rows
// before it that any of its rows sees; its EXPORTS are its own rows that a later part sees. Both are in path order, and
// what a later part sees of an earlier one is a beginning of its exports. Parts are to be run forward in order and
// backward in reverse: a part's gradient is complete when all that saw its exports have given theirs.
//
// Which cut. A part that later ones see must be kept until they are done, with all it saw itself. Therefore a part ends
// only where (1) nothing of it is seen later, or (2) all of its prefix stays visible and at least half of its rows are
// exports; of those ends the last one within the budget is taken. So no part is kept for the sake of another that has
// nothing on the path any more. A part is kept whole: one whose path went back up to a fork holds more rows than are
// seen.
//
// Nothing is assumed of a forest but that the ranges [j, visible_end[j]) nest. Pure functions.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "tree/forest.h"

namespace ingot::tree {

struct ForestPart {
  // The first `rows` exports of an earlier part.
  struct Source {
    int32_t part;
    int32_t rows;
  };
  int32_t begin = 0, end = 0;    // packed rows
  std::vector<Source> prefix;    // by part, ascending
  int32_t prefix_rows = 0;       // of all sources
  std::vector<int32_t> exports;  // rows from `begin`, ascending
  int32_t last_user = 0;         // the last part that sees an export; the part itself: none
  int32_t loss_rows = 0;         // rows that a loss entry is read from
  int64_t visible_pairs = 0;     // unmasked (query, key) pairs, keys of the prefix included
  // [prefix_rows + size()]: the prefix, then the part's own rows, as keys of the part's queries, which are the indices
  // from prefix_rows on.
  std::vector<int32_t> visible_end;

  int32_t size() const { return end - begin; }
  bool seen_later(int32_t self) const { return last_user > self; }
};

// Parts of at most `max_tokens` rows (at least 1) in packed order; none of an empty forest. Time and memory: the rows
// and, per part, its prefix.
std::vector<ForestPart> CutForest(const PackedForest& forest, int64_t max_tokens);

// The order in which parts are run: start(i) for each in turn, and finish(i) as soon as no later part sees it, which is
// after the finish of all that saw it; what was started last of those that wait is finished first.
void RunParts(std::span<const ForestPart> parts, const std::function<void(size_t)>& start,
              const std::function<void(size_t)>& finish);

// The calls that sampled something, the longest first, equal ones as they come: packed in this order, every fork's
// deepest path is laid out before its other branches, so that a cut forest keeps no branch waiting for a deeper one.
std::vector<int32_t> OrderChainFirst(std::span<const CallPath> calls);

}  // namespace ingot::tree
