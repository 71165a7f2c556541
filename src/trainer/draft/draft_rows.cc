#include "trainer/draft/draft_rows.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/rng.h"

namespace ingot::trainer {
namespace {

// Returns each row's parent; -1 = none. In DFS pre-order, it is the last earlier row whose depth is one less.
std::vector<int32_t> ParentsOf(const tree::PackedForest& forest) {
  std::vector<int32_t> parents(forest.size(), -1), last;
  for (size_t row = 0; row < forest.size(); ++row) {
    const auto depth = static_cast<size_t>(forest.positions[row]);
    if (depth > 0) parents[row] = last[depth - 1];
    last.resize(std::max(last.size(), depth + 1));
    last[depth] = static_cast<int32_t>(row);
  }
  return parents;
}

std::vector<size_t> ChooseEntries(const tree::PackedForest& forest, int64_t most, uint64_t seed) {
  std::vector<size_t> chosen(forest.entries.size());
  std::iota(chosen.begin(), chosen.end(), size_t{0});
  if (std::ssize(chosen) <= most) return chosen;
  std::vector<uint64_t> keys(chosen.size());
  for (size_t i = 0; i < keys.size(); ++i) {
    const tree::LossEntry& entry = forest.entries[i];
    keys[i] = base::DeriveSeed(base::DeriveSeed(seed, static_cast<uint64_t>(entry.call)),
                               static_cast<uint64_t>(entry.offset));
  }
  const auto before = [&](size_t a, size_t b) { return std::pair(keys[a], a) < std::pair(keys[b], b); };
  std::nth_element(chosen.begin(), chosen.begin() + most, chosen.end(), before);
  chosen.resize(static_cast<size_t>(most));
  return chosen;
}

std::vector<DraftRows::Teacher> TeachersOf(const tree::PackedForest& forest, std::span<const tree::CallPath> calls,
                                           const std::vector<size_t>& entries) {
  std::vector<std::pair<int32_t, float>> reads;
  for (const size_t i : entries) {
    const tree::LossEntry& entry = forest.entries[i];
    reads.emplace_back(entry.row, calls[static_cast<size_t>(entry.call)].temperature);
  }
  std::sort(reads.begin(), reads.end());
  std::vector<DraftRows::Teacher> teachers;
  for (const auto& [row, temperature] : reads) {
    const bool same = !teachers.empty() && teachers.back().row == row && teachers.back().temperature == temperature;
    if (!same) teachers.push_back({row, temperature, 0});
    teachers.back().weight += 1;
  }
  return teachers;
}

void Unique(std::vector<int32_t>& rows) {
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
}

int32_t PlaceOf(const std::vector<int32_t>& rows, int32_t row) {
  return static_cast<int32_t>(std::lower_bound(rows.begin(), rows.end(), row) - rows.begin());
}

}  // namespace

int64_t DraftRows::Find(int32_t row, float temperature) const {
  const auto place = std::lower_bound(teachers.begin(), teachers.end(), std::pair(row, temperature),
                                      [](const Teacher& teacher, const std::pair<int32_t, float>& wanted) {
                                        return std::pair(teacher.row, teacher.temperature) < wanted;
                                      });
  const bool found = place != teachers.end() && place->row == row && place->temperature == temperature;
  return found ? place - teachers.begin() : -1;
}

DraftRows ChooseDraftRows(const tree::PackedForest& forest, std::span<const tree::CallPath> calls, int64_t depths,
                          int64_t most, uint64_t seed) {
  const std::vector<int32_t> parents = ParentsOf(forest);
  DraftRows chosen;
  chosen.teachers = TeachersOf(forest, calls, ChooseEntries(forest, most, seed));
  for (const DraftRows::Teacher& teacher : chosen.teachers) chosen.tokens += teacher.weight;
  chosen.depths.resize(static_cast<size_t>(depths));
  std::vector<int32_t> needed;  // read by the deeper depths
  for (int64_t depth = depths; depth > 0; --depth) {
    DraftRows::Depth& at = chosen.depths[static_cast<size_t>(depth) - 1];
    at.rows = std::move(needed);
    for (const DraftRows::Teacher& teacher : chosen.teachers) {
      if (forest.positions[static_cast<size_t>(teacher.row)] >= depth) at.rows.push_back(teacher.row);
    }
    Unique(at.rows);
    needed.clear();
    for (const int32_t row : at.rows) needed.push_back(parents[static_cast<size_t>(row)]);
  }
  chosen.hidden = std::move(needed);
  Unique(chosen.hidden);
  for (int64_t depth = 1; depth <= depths; ++depth) {
    DraftRows::Depth& at = chosen.depths[static_cast<size_t>(depth) - 1];
    const std::vector<int32_t>& before =
        depth == 1 ? chosen.hidden : chosen.depths[static_cast<size_t>(depth) - 2].rows;
    for (const int32_t row : at.rows) at.sources.push_back(PlaceOf(before, parents[static_cast<size_t>(row)]));
    for (size_t i = 0; i < chosen.teachers.size(); ++i) {
      const int32_t row = chosen.teachers[i].row;
      if (forest.positions[static_cast<size_t>(row)] < depth) continue;
      at.taught.push_back(PlaceOf(at.rows, row));
      at.teachers.push_back(static_cast<int32_t>(i));
    }
  }
  return chosen;
}

}  // namespace ingot::trainer
