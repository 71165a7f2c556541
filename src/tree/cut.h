// Cuts a packed forest into parts that each fit into one forward and backward pass. A part sees the keys and values of
// its ancestors in earlier parts.
//
//   packed     0 1 2 3 4 5 6 7 8 9        parts of at most 4 tokens
//   path       a b c d e f . . . .        [0,4)  a b c d      exports a b c d
//                    `---- g h . .        [4,8)  e f g h      prefix a b c d, exports nothing
//                  `---------- i j        [8,10) i j          prefix a b
//
// A part is a range of rows in the packed stream. Its PREFIX is the set of earlier rows that its first row sees. The
// part's other rows see no earlier rows except these. Its EXPORTS are the rows of this part that a later part sees.
// Both are in path order. A later part sees a prefix of an earlier part's exports. Parts run forward in order and
// backward in reverse: a part's gradient is complete once every part that saw its exports has added its contribution.
//
// Where to cut. A part that later parts see stays in memory with its prefix until they are done. So a part may end only
// where (1) no later part sees any of its rows, or (2) its entire prefix stays visible and at least half of its rows
// are exports. The cut uses the last such position within the budget. So no part stays in memory because of a part that
// is no longer on the path. A part is kept in full: if its path returned to an earlier fork, it keeps more rows than
// later parts see.
//
// The only assumption about the forest is that the ranges [j, visible_end[j]) nest. Pure functions.
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
    int32_t part;  // index of the part
    int32_t rows;
  };
  int32_t begin = 0, end = 0;    // packed rows
  std::vector<Source> prefix;    // in ascending order of parts
  int32_t prefix_rows = 0;       // over all sources
  std::vector<int32_t> exports;  // rows relative to `begin`, ascending
  // The part's rows that have a child in a later part, relative to `begin`, ascending. Recurrent layers pass the states
  // after these rows to later parts.
  std::vector<int32_t> branches;
  // A row of this part with a parent in an earlier part.
  struct Crossing {
    int32_t row;     // relative to `begin`
    int32_t part;    // the earlier part
    int32_t branch;  // the parent, as an index into that part's `branches`
  };
  std::vector<Crossing> crossings;  // in row order
  int32_t last_user = 0;            // index of the last part that sees an export; the part's own index = none
  int32_t loss_rows = 0;            // rows that predict the token of a loss entry
  int64_t visible_pairs = 0;        // unmasked (query, key) pairs, including keys in the prefix
  // [prefix_rows + size()], by key: first the prefix, then the part's own rows. Values are query indices, starting at
  // prefix_rows. Empty in parts that only plan memory.
  std::vector<int32_t> visible_end;

  int32_t size() const { return end - begin; }
  bool seen_later(int32_t self) const { return last_user > self; }
};

// Cuts the forest into parts of at most `max_tokens` rows (at least 1), in packed order. Returns an empty list for an
// empty forest. Time and memory are linear in the rows and in each part's prefix.
std::vector<ForestPart> CutForest(const PackedForest& forest, int64_t max_tokens);

// Same as CutForest for a single sequence of `rows` rows with a loss entry on each, but leaves visible_end empty. Memory is
// linear in the rows and quadratic only in the number of parts, so that long sequences can be planned.
std::vector<ForestPart> CutSequence(int64_t rows, int64_t max_tokens);

// Returns the parent of each row in a part: a row relative to `begin`; ~i = the parent of crossings[i]; kRoot = no
// parent. This is the format of kernels::PlanRows. Linear in the rows.
std::vector<int32_t> ParentsIn(const PackedForest& forest, const ForestPart& part);
inline constexpr int32_t kRoot = std::numeric_limits<int32_t>::min();

// Calls start(i) for each part in order, and finish(i) as soon as no later part sees part i. The parts that saw part i
// finish before it. Of several parts ready to finish, the most recently started one finishes first.
void RunParts(std::span<const ForestPart> parts, const std::function<void(size_t)>& start,
              const std::function<void(size_t)>& finish);

// Returns the indices of the calls that sampled a token, longest first. Calls of equal length keep their order. In this
// order, the deepest path at every fork precedes the other branches, so in a cut forest no branch waits for a deeper
// branch.
std::vector<int32_t> OrderChainFirst(std::span<const CallPath> calls);

}  // namespace ingot::tree
