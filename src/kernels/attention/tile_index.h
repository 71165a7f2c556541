// TileIndex finds the key tiles that a range of queries must read, in time proportional to their number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace ingot::kernels::tiles {

enum class Visibility { kNone, kSome, kAll };

// Queries [first, last) of a sequence, by packed index, with the least and greatest of their positions. The positions
// are read only with a window.
struct QueryRange {
  int64_t first, last;
  int64_t low_position, high_position;
};

// Holds the bounds of visible_end and of the positions per tile of kKeyTile keys, and above them levels of kFan tiles
// each. So few steps pass a long run of hidden tiles. Immutable. Keeps the pointers.
class TileIndex {
 public:
  // visible_end and positions are [keys] or null (plain causal; the packed index). window 0 = none.
  TileIndex(const int32_t* visible_end, const int32_t* positions, int64_t window, int64_t keys);

  QueryRange Queries(int64_t first, int64_t last) const;

  // The first tile in [tile, end) that some query of the range may see; `end` = none. Never skips a visible
  // tile.
  int64_t Next(int64_t tile, int64_t end, const QueryRange& queries) const;

  // Tiles from this one on hold only keys that come after the queries.
  int64_t End(const QueryRange& queries) const;

  // No query from this packed index on sees a key of the tile.
  int64_t LastQuery(int64_t tile) const {
    return levels_.empty() ? std::numeric_limits<int64_t>::max() : levels_[0][static_cast<size_t>(tile)].high_end;
  }

  Visibility Of(const QueryRange& queries, int64_t tile) const;

  // The number of tiles that Next would return in [begin, end).
  int64_t Count(int64_t begin, int64_t end, const QueryRange& queries) const;

  // Whether some query of the range may see a key of tiles [begin, end).
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
  std::vector<std::vector<Bounds>> levels_;  // [0] by tile, [l] by kFan^l tiles; empty = plain causal
};

}  // namespace ingot::kernels::tiles
