#include "kernels/attention/tile_index.h"

#include <gtest/gtest.h>

#include "kernels/attention/attention_reference.h"

namespace ingot::kernels::tiles {
namespace {

using testing::Depths;
using testing::RandomForest;

// Compares every answer with every query and key of the tile, one by one.
TEST(TileIndex, NamesTheTilesThatItsBoundsAllowAndHidesNoVisibleKey) {
  std::mt19937_64 rng(1);
  for (int round = 0; round < 60; ++round) {
    const int64_t keys = 1 + static_cast<int64_t>(rng() % 3000);
    const std::vector<int32_t> ends = RandomForest(rng, keys, 0.01 * static_cast<double>(rng() % 4), 0.004);
    const std::vector<int32_t> depths = Depths(ends);
    const int64_t window = round % 3 == 0 ? 0 : 1 + static_cast<int64_t>(rng() % 300);
    const bool tree = round % 4 != 0, deep = round % 2 == 0;  // else plain causal, else positions are packed indices
    if (tree && !deep && window > 0) continue;                // not a window over depths
    const TileIndex index(tree ? ends.data() : nullptr, tree && deep ? depths.data() : nullptr, window, keys);
    const int64_t first = static_cast<int64_t>(rng() % keys);
    const int64_t last = std::min(keys, first + 1 + static_cast<int64_t>(rng() % 200));
    const QueryRange queries = index.Queries(first, last);
    const int64_t tiles = (keys + kKeyTile - 1) / kKeyTile;
    std::vector<int64_t> named;
    for (int64_t t = index.Next(0, index.End(queries), queries); t < index.End(queries);
         t = index.Next(t + 1, index.End(queries), queries)) {
      named.push_back(t);
    }
    EXPECT_EQ(static_cast<int64_t>(named.size()), index.Count(0, index.End(queries), queries));
    for (int64_t t = 0; t < tiles; ++t) {
      int64_t seen = 0, pairs = 0;
      for (int64_t i = first; i < last; ++i) {
        for (int64_t j = t * kKeyTile; j < std::min(keys, (t + 1) * kKeyTile); ++j, ++pairs) {
          const int64_t distance = tree ? depths[i] - depths[j] : i - j;
          seen += j <= i && (!tree || ends[j] > i) && (window == 0 || distance < window);
        }
      }
      const Visibility visibility = index.Of(queries, t);
      EXPECT_TRUE(visibility != Visibility::kNone || seen == 0);
      EXPECT_TRUE(visibility != Visibility::kAll || seen == pairs);
      EXPECT_TRUE(window > 0 || (visibility == Visibility::kAll) == (seen == pairs));
      const bool listed = std::find(named.begin(), named.end(), t) != named.end();
      EXPECT_EQ(listed, visibility != Visibility::kNone) << t;
      EXPECT_TRUE(seen == 0 || index.LastQuery(t) > first);
    }
  }
}

// 65,536 tiles in four levels, all but the last hidden. A search that looked at each would take as many steps.
TEST(TileIndex, PassesLongHiddenRunsAsOne) {
  const int64_t keys = 65536 * kKeyTile;
  std::vector<int32_t> ends(keys);
  for (int64_t j = 0; j < keys; ++j) ends[j] = static_cast<int32_t>(std::min(keys, (j / 1024 + 1) * 1024));
  const TileIndex index(ends.data(), nullptr, 0, keys);
  int64_t named = 0;
  for (int64_t q = 0; q < keys; q += kKeyTile) {  // 2^32 pairs of tiles
    const QueryRange queries = index.Queries(q, q + kKeyTile);
    named += index.Count(0, index.End(queries), queries);
  }
  EXPECT_EQ(named, keys / 1024 * (16 * 17 / 2));
}

}  // namespace
}  // namespace ingot::kernels::tiles
