#include "kernels/cuda/attention_plan.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace ingot::kernels::cuda {

AttentionPlan::AttentionPlan(const AttentionShape& shape, std::span<const AttentionSequence> sequences,
                             int64_t page_size, bool backward, int block_rows, int64_t most_key_blocks)
    : block_rows_(block_rows) {
  for (const AttentionSequence& sequence : sequences) AddSequence(shape, sequence, page_size);
  if (backward) OrderByTile((sequences.front().key_count + kTileKeys - 1) / kTileKeys, most_key_blocks);
}

int64_t AttentionPlan::KeepValues(const int32_t* values, int64_t count) {
  if (values == nullptr) return -1;
  const auto at = static_cast<int64_t>(integers_.size());
  integers_.insert(integers_.end(), values, values + count);
  return at;
}

void AttentionPlan::AddSequence(const AttentionShape& shape, const AttentionSequence& s, int64_t page_size) {
  const int32_t* positions = shape.window > 0 ? s.positions : nullptr;
  const int64_t pages = s.block_table == nullptr ? 0 : (s.key_count + page_size - 1) / page_size;
  sequences_.push_back({s.q_begin, s.q_offset, s.key_begin, s.key_count, KeepValues(s.block_table, pages),
                        KeepValues(s.visible_end, s.key_count), KeepValues(positions, s.key_count)});
  const tiles::TileIndex index(s.visible_end, positions, shape.window, s.key_count);
  const int64_t group = shape.heads / shape.kv_heads, rows = s.q_count * group;
  for (int64_t first = 0; first < rows; first += block_rows_) {
    const int64_t last = std::min<int64_t>(rows, first + block_rows_);
    const tiles::QueryRange queries = index.Queries(s.q_offset + first / group, s.q_offset + (last - 1) / group + 1);
    AddBlock({static_cast<int32_t>(sequences_.size() - 1), 0, 0, static_cast<int32_t>(last - first), first}, index,
             queries);
  }
}

void AttentionPlan::AddBlock(RowBlock block, const tiles::TileIndex& index, const tiles::QueryRange& queries) {
  const size_t first_run = runs_.size();
  const int64_t end = index.End(queries);
  for (int64_t tile = index.Next(0, end, queries); tile < end; tile = index.Next(tile + 1, end, queries)) {
    const auto t = static_cast<int32_t>(tile);
    // The last tile may have fewer keys than places.
    const bool whole = (tile + 1) * kTileKeys <= sequences_.back().key_count;
    const int32_t masked = whole && index.Of(queries, tile) == tiles::Visibility::kAll ? 0 : 1;
    if (runs_.size() > first_run && runs_.back().last == t && runs_.back().masked == masked) {
      ++runs_.back().last;
    } else {
      runs_.push_back({t, t + 1, masked});
    }
  }
  block.first_run = static_cast<int32_t>(first_run);
  block.last_run = static_cast<int32_t>(runs_.size());
  blocks_.push_back(block);
}

// Finds the blocks that read each tile. Visits them in ascending order, so each tile's runs are ascending.
std::vector<std::vector<Run>> AttentionPlan::BlocksByTile(int64_t tiles) const {
  std::vector<std::vector<Run>> of_tile(static_cast<size_t>(tiles));
  for (size_t b = 0; b < blocks_.size(); ++b) {
    const auto block = static_cast<int32_t>(b);
    for (int32_t r = blocks_[b].first_run; r < blocks_[b].last_run; ++r) {
      for (int32_t tile = runs_[r].first; tile < runs_[r].last; ++tile) {
        std::vector<Run>& runs = of_tile[tile];
        if (!runs.empty() && runs.back().last == block && runs.back().masked == runs_[r].masked) {
          ++runs.back().last;
        } else {
          runs.push_back({block, block + 1, runs_[r].masked});
        }
      }
    }
  }
  return of_tile;
}

namespace {

int64_t Blocks(std::span<const Run> runs) {
  int64_t count = 0;
  for (const Run& run : runs) count += run.last - run.first;
  return count;
}

}  // namespace

int64_t AttentionPlan::Length(const KeyBlock& keys) const {
  return Blocks(std::span(block_runs_).subspan(keys.first_run, keys.last_run - keys.first_run));
}

void AttentionPlan::OrderByTile(int64_t tiles, int64_t most_blocks) {
  const std::vector<std::vector<Run>> of_tile = BlocksByTile(tiles);
  int64_t pairs = 0;
  for (const std::vector<Run>& runs : of_tile) pairs += Blocks(runs);
  const int64_t most = std::max(most_blocks, (pairs + kMostKeyParts - 1) / kMostKeyParts);
  for (size_t tile = 0; tile < of_tile.size(); ++tile) {
    const int64_t parts = most_blocks == 0 ? 1 : std::max<int64_t>(1, (Blocks(of_tile[tile]) + most - 1) / most);
    AddKeyBlocks(static_cast<int32_t>(tile), of_tile[tile], parts);
  }
  if (most_blocks == 0) return;
  std::stable_sort(key_blocks_.begin(), key_blocks_.end(),
                   [this](const KeyBlock& a, const KeyBlock& b) { return Length(a) > Length(b); });
}

void AttentionPlan::AddKeyBlocks(int32_t tile, std::span<const Run> runs, int64_t parts) {
  const int64_t count = Blocks(runs);
  if (parts > 1) key_sums_.push_back({tile, slots_, slots_ + static_cast<int32_t>(parts)});
  for (int64_t part = 0; part < parts; ++part) {
    const int64_t begin = count * part / parts, end = count * (part + 1) / parts;
    const auto first_run = static_cast<int32_t>(block_runs_.size());
    int64_t before = 0;  // blocks of earlier runs
    for (const Run& run : runs) {
      const int64_t first = std::max(begin, before), last = std::min(end, before + run.last - run.first);
      const auto shift = static_cast<int32_t>(run.first - before);
      if (first < last) {
        block_runs_.push_back({static_cast<int32_t>(first) + shift, static_cast<int32_t>(last) + shift, run.masked});
      }
      before += run.last - run.first;
    }
    key_blocks_.push_back(
        {tile, first_run, static_cast<int32_t>(block_runs_.size()), parts > 1 ? slots_++ : int32_t{-1}});
  }
}

// Calls f(data, bytes) for each part, in the order of the packed form.
template <typename F>
void AttentionPlan::ForParts(const F& f) const {
  const auto part = [&](const auto& v) { f(v.data(), v.size() * sizeof(v[0])); };
  part(sequences_);
  part(blocks_);
  part(key_blocks_);
  part(runs_);
  part(block_runs_);
  part(key_sums_);
  part(integers_);
}

namespace {
size_t Aligned(size_t bytes) { return (bytes + 15) / 16 * 16; }
}  // namespace

size_t AttentionPlan::packed_bytes() const {
  size_t total = 0;
  ForParts([&](const void*, size_t bytes) { total += Aligned(bytes); });
  return total;
}

void AttentionPlan::Pack(std::byte* to) const {
  ForParts([&](const void* data, size_t bytes) {
    if (bytes > 0) std::memcpy(to, data, bytes);
    to += Aligned(bytes);
  });
}

PlanView AttentionPlan::View(const std::byte* base) const {
  std::array<const std::byte*, 7> at{};
  size_t n = 0;
  ForParts([&](const void*, size_t bytes) {
    at[n++] = base;
    base += Aligned(bytes);
  });
  return {reinterpret_cast<const PlannedSequence*>(at[0]),
          reinterpret_cast<const RowBlock*>(at[1]),
          reinterpret_cast<const KeyBlock*>(at[2]),
          reinterpret_cast<const TileRun*>(at[3]),
          reinterpret_cast<const Run*>(at[4]),
          reinterpret_cast<const KeySum*>(at[5]),
          reinterpret_cast<const int32_t*>(at[6])};
}

}  // namespace ingot::kernels::cuda
