// Finds the key tiles that a range of queries must read, in time proportional to the number of those tiles.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace ingot::kernels::tiles {

enum class Visibility { kNone, kSome, kAll };

// Queries [first, last) of a sequence, by packed index, with their smallest and largest positions. The positions are
// used only with a window.
struct QueryRange {
  int64_t first, last;
  int64_t low_position, high_position;
};

// Stores the bounds of visible_end and of the positions for each tile of kKeyTile keys. Each higher level combines kFan
// entries of the one below, so a long range of hidden tiles is skipped in a few steps. Immutable. Stores the pointers.
class TileIndex {
 public:
  // visible_end and positions are [keys] or null (plain causal, or the packed index). window 0 = none.
  TileIndex(const int32_t* visible_end, const int32_t* positions, int64_t window, int64_t keys);

  QueryRange Queries(int64_t first, int64_t last) const;

  // Returns the first tile in [tile, end) that some query in the range may see, or `end`. Never skips a visible tile.
  int64_t Next(int64_t tile, int64_t end, const QueryRange& queries) const;

  // Returns the first tile that contains only keys after the queries.
  int64_t End(const QueryRange& queries) const;

  // Returns the first packed index such that no query at or after it sees a key of the tile.
  int64_t LastQuery(int64_t tile) const {
    return levels_.empty() ? std::numeric_limits<int64_t>::max() : levels_[0][static_cast<size_t>(tile)].high_end;
  }

  Visibility Of(const QueryRange& queries, int64_t tile) const;

  // Returns the number of tiles that Next would find in [begin, end).
  int64_t Count(int64_t begin, int64_t end, const QueryRange& queries) const;

  // Returns whether any query in the range may see a key in tiles [begin, end).
  bool Any(int64_t begin, int64_t end, const QueryRange& queries) const { return Next(begin, end, queries) < end; }

 private:
  static constexpr int64_t kFan = 16;
  struct Bounds {
    int32_t high_end, high_position;
    int32_t low_end, low_position;
  };

  bool Hidden(const Bounds& b, const QueryRange& q) const {
    return b.high_end <= q.first || (window_ > 0 && b.high_position <= q.low_position - window_);
  }

  const int32_t* positions_;
  const int64_t window_, keys_;
  std::vector<std::vector<Bounds>> levels_;  // [0] = by tile, [l] = by kFan^l tiles; empty = plain causal
};

}  // namespace ingot::kernels::tiles
