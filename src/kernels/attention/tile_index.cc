#include "kernels/attention/tile_index.h"

#include <algorithm>
#include <limits>

#include "kernels/attention/attention.h"

namespace ingot::kernels::tiles {

TileIndex::TileIndex(const int32_t* visible_end, const int32_t* positions, int64_t window, int64_t keys)
    : positions_(window > 0 ? positions : nullptr), window_(window), keys_(keys) {
  if (visible_end == nullptr && positions_ == nullptr) return;
  constexpr int32_t kMax = std::numeric_limits<int32_t>::max(), kMin = std::numeric_limits<int32_t>::min();
  std::vector<Bounds>& tiles = levels_.emplace_back();
  tiles.reserve(static_cast<size_t>((keys + kKeyTile - 1) / kKeyTile));
  for (int64_t k0 = 0; k0 < keys; k0 += kKeyTile) {
    const int64_t k1 = std::min(keys, k0 + kKeyTile);
    Bounds b{kMin, kMin, kMax, kMax};
    for (int64_t k = k0; k < k1; ++k) {
      const int32_t end = visible_end == nullptr ? kMax : visible_end[k];
      const int32_t position = positions_ == nullptr ? static_cast<int32_t>(k) : positions_[k];
      b.high_end = std::max(b.high_end, end);
      b.low_end = std::min(b.low_end, end);
      b.high_position = std::max(b.high_position, position);
      b.low_position = std::min(b.low_position, position);
    }
    tiles.push_back(b);
  }
  while (static_cast<int64_t>(levels_.back().size()) > kFan) {
    const std::vector<Bounds>& below = levels_.back();
    std::vector<Bounds> above;
    for (size_t i = 0; i < below.size(); i += kFan) {
      Bounds b = below[i];
      for (size_t j = i + 1; j < std::min(below.size(), i + kFan); ++j) {
        b.high_end = std::max(b.high_end, below[j].high_end);
        b.high_position = std::max(b.high_position, below[j].high_position);
      }
      above.push_back(b);
    }
    levels_.push_back(std::move(above));
  }
}

QueryRange TileIndex::Queries(int64_t first, int64_t last) const {
  QueryRange range{first, last, first, last - 1};
  if (positions_ != nullptr && first < last) {
    const auto [low, high] = std::minmax_element(positions_ + first, positions_ + last);
    range.low_position = *low;
    range.high_position = *high;
  }
  return range;
}

int64_t TileIndex::End(const QueryRange& queries) const {
  return (std::min(keys_, queries.last) + kKeyTile - 1) / kKeyTile;
}

int64_t TileIndex::Next(int64_t tile, int64_t end, const QueryRange& queries) const {
  if (levels_.empty()) {
    const int64_t low = window_ > 0 ? std::max<int64_t>(0, queries.low_position - window_ + 1) / kKeyTile : 0;
    return std::min(end, std::max(tile, low));
  }
  while (tile < end) {
    // Rises while the tile is the first of a larger run that is completely hidden.
    size_t level = 0;
    int64_t span = 1;
    if (!Hidden(levels_[0][static_cast<size_t>(tile)], queries)) return tile;
    while (level + 1 < levels_.size() && tile % (span * kFan) == 0 &&
           Hidden(levels_[level + 1][static_cast<size_t>(tile / (span * kFan))], queries)) {
      ++level;
      span *= kFan;
    }
    tile += span;
  }
  return end;
}

Visibility TileIndex::Of(const QueryRange& queries, int64_t tile) const {
  const int64_t k0 = tile * kKeyTile, k1 = std::min(keys_, k0 + kKeyTile);
  if (k0 >= queries.last) return Visibility::kNone;
  if (levels_.empty()) {
    if (window_ > 0 && k1 - 1 <= queries.low_position - window_) return Visibility::kNone;
    const bool all = k1 - 1 <= queries.first && (window_ == 0 || k0 > queries.high_position - window_);
    return all ? Visibility::kAll : Visibility::kSome;
  }
  const Bounds& b = levels_[0][static_cast<size_t>(tile)];
  if (Hidden(b, queries)) return Visibility::kNone;
  const bool all = k1 - 1 <= queries.first && b.low_end >= queries.last &&
                   (window_ == 0 || b.low_position > queries.high_position - window_);
  return all ? Visibility::kAll : Visibility::kSome;
}

int64_t TileIndex::Count(int64_t begin, int64_t end, const QueryRange& queries) const {
  if (levels_.empty()) return std::max<int64_t>(0, end - Next(begin, end, queries));
  int64_t count = 0;
  for (int64_t t = Next(begin, end, queries); t < end; t = Next(t + 1, end, queries)) ++count;
  return count;
}

}  // namespace ingot::kernels::tiles
