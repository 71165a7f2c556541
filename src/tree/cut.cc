#include "tree/cut.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace ingot::tree {
namespace {

// A row that a part after the last cut may see.
struct OpenRow {
  int32_t visible_end;
  int32_t part;
};

// Returns the last allowed end, at most `limit`, of a part that begins at `begin`.
int32_t ChooseEnd(const PackedForest& forest, const std::vector<OpenRow>& open, int32_t begin, int32_t limit) {
  std::vector<int32_t> ends;  // visible_end of the part's rows that are visible at `end`; they nest
  int32_t chosen = begin + 1;
  for (int32_t end = begin + 1; end <= limit; ++end) {
    ends.push_back(forest.visible_end[static_cast<size_t>(end) - 1]);
    while (!ends.empty() && ends.back() <= end) ends.pop_back();
    const bool prefix_stays = open.empty() || open.back().visible_end > end;
    if (ends.empty() || (prefix_stays && 2 * static_cast<int64_t>(ends.size()) >= end - begin)) chosen = end;
  }
  return chosen;
}

ForestPart MakePart(const PackedForest& forest, const std::vector<OpenRow>& open, int32_t begin, int32_t end) {
  ForestPart part;
  part.begin = begin;
  part.end = end;
  part.prefix_rows = static_cast<int32_t>(open.size());
  part.visible_end.reserve(open.size() + static_cast<size_t>(end - begin));
  for (const OpenRow& row : open) {
    if (part.prefix.empty() || part.prefix.back().part != row.part) part.prefix.push_back({row.part, 0});
    ++part.prefix.back().rows;
    const int32_t seen_by = std::min(row.visible_end, end) - begin;
    part.visible_end.push_back(part.prefix_rows + seen_by);
    part.visible_pairs += seen_by;
  }
  for (int32_t row = begin; row < end; ++row) {
    const int32_t until = forest.visible_end[static_cast<size_t>(row)];
    part.visible_end.push_back(part.prefix_rows + std::min(until, end) - begin);
    part.visible_pairs += std::min(until, end) - row;
    if (until > end) part.exports.push_back(row - begin);
  }
  return part;
}

// Finds the rows whose parents are in earlier parts.
void FindCrossings(const PackedForest& forest, std::vector<ForestPart>& parts) {
  const auto part_of = [&](int32_t row) {
    const auto after = std::upper_bound(parts.begin(), parts.end(), row,
                                        [](int32_t r, const ForestPart& part) { return r < part.begin; });
    return static_cast<int32_t>(after - parts.begin()) - 1;
  };
  std::vector<int32_t> path;
  for (ForestPart& part : parts) {
    for (int32_t row = part.begin; row < part.end; ++row) {
      while (!path.empty() && forest.visible_end[static_cast<size_t>(path.back())] <= row) path.pop_back();
      if (!path.empty() && path.back() < part.begin) part.crossings.push_back({row - part.begin, -1, path.back()});
      path.push_back(row);
    }
    for (ForestPart::Crossing& crossing : part.crossings) {  // `branch` is the parent's row until here
      crossing.part = part_of(crossing.branch);
      parts[static_cast<size_t>(crossing.part)].branches.push_back(crossing.branch -
                                                                   parts[static_cast<size_t>(crossing.part)].begin);
    }
  }
  for (ForestPart& part : parts) {
    std::sort(part.branches.begin(), part.branches.end());
    part.branches.erase(std::unique(part.branches.begin(), part.branches.end()), part.branches.end());
  }
  for (ForestPart& part : parts) {
    for (ForestPart::Crossing& crossing : part.crossings) {
      const ForestPart& from = parts[static_cast<size_t>(crossing.part)];
      const auto found = std::lower_bound(from.branches.begin(), from.branches.end(), crossing.branch - from.begin);
      crossing.branch = static_cast<int32_t>(found - from.branches.begin());
    }
  }
}

}  // namespace

std::vector<int32_t> ParentsIn(const PackedForest& forest, const ForestPart& part) {
  std::vector<int32_t> parents, path;
  parents.reserve(static_cast<size_t>(part.size()));
  size_t crossing = 0;
  for (int32_t row = 0; row < part.size(); ++row) {
    while (!path.empty() &&
           forest.visible_end[static_cast<size_t>(part.begin) + static_cast<size_t>(path.back())] <= part.begin + row) {
      path.pop_back();
    }
    const bool crosses = crossing < part.crossings.size() && part.crossings[crossing].row == row;
    parents.push_back(!path.empty() ? path.back() : crosses ? ~static_cast<int32_t>(crossing) : kRoot);
    crossing += crosses ? 1 : 0;
    path.push_back(row);
  }
  return parents;
}

std::vector<ForestPart> CutForest(const PackedForest& forest, int64_t max_tokens) {
  const auto rows = static_cast<int32_t>(forest.size());
  std::vector<ForestPart> parts;
  std::vector<bool> read(forest.size(), false);  // by row: true = a loss entry reads it
  for (const LossEntry& entry : forest.entries) read[static_cast<size_t>(entry.row)] = true;
  std::vector<OpenRow> open;  // the path to the next row; visible_end does not increase along it
  for (int32_t begin = 0; begin < rows;) {
    while (!open.empty() && open.back().visible_end <= begin) open.pop_back();
    const auto limit = static_cast<int32_t>(std::min<int64_t>(rows, begin + std::max<int64_t>(1, max_tokens)));
    const auto self = static_cast<int32_t>(parts.size());
    parts.push_back(MakePart(forest, open, begin, ChooseEnd(forest, open, begin, limit)));
    ForestPart& part = parts.back();
    part.last_user = self;
    part.loss_rows = static_cast<int32_t>(std::count(read.begin() + begin, read.begin() + part.end, true));
    for (const ForestPart::Source& source : part.prefix) parts[static_cast<size_t>(source.part)].last_user = self;
    for (const int32_t row : part.exports)
      open.push_back({forest.visible_end[static_cast<size_t>(begin) + static_cast<size_t>(row)], self});
    begin = part.end;
  }
  FindCrossings(forest, parts);
  return parts;
}

std::vector<ForestPart> CutSequence(int64_t rows, int64_t max_tokens) {
  const int64_t step = std::max<int64_t>(1, max_tokens);
  std::vector<ForestPart> parts;
  for (int64_t begin = 0; begin < rows; begin += step) {
    const auto self = static_cast<int32_t>(parts.size());
    ForestPart part;
    part.begin = part.prefix_rows = static_cast<int32_t>(begin);
    part.end = static_cast<int32_t>(std::min(rows, begin + step));
    part.loss_rows = part.size();
    part.visible_pairs = begin * part.size() + int64_t{part.size()} * (part.size() + 1) / 2;
    for (const ForestPart& earlier : parts) {
      part.prefix.push_back({static_cast<int32_t>(&earlier - parts.data()), earlier.size()});
    }
    if (self > 0) part.crossings.push_back({0, self - 1, 0});
    part.last_user = static_cast<int32_t>((rows - 1) / step);
    if (part.seen_later(self)) {
      part.exports.resize(static_cast<size_t>(part.size()));
      std::iota(part.exports.begin(), part.exports.end(), 0);
      part.branches = {part.size() - 1};
    }
    parts.push_back(std::move(part));
  }
  return parts;
}

void RunParts(std::span<const ForestPart> parts, const std::function<void(size_t)>& start,
              const std::function<void(size_t)>& finish) {
  std::vector<size_t> waiting;
  for (size_t i = 0; i < parts.size(); ++i) {
    start(i);
    waiting.push_back(i);
    for (; !waiting.empty() && parts[waiting.back()].last_user <= static_cast<int32_t>(i); waiting.pop_back()) {
      finish(waiting.back());
    }
  }
}

std::vector<int32_t> OrderChainFirst(std::span<const CallPath> calls) {
  std::vector<int32_t> order;
  for (size_t i = 0; i < calls.size(); ++i) {
    if (!calls[i].sampled.empty()) {
      order.push_back(static_cast<int32_t>(i));
    }
  }
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return calls[static_cast<size_t>(a)].size() > calls[static_cast<size_t>(b)].size();
  });
  return order;
}

}  // namespace ingot::tree
