// AttentionPlan is the work list of a launch of the CUDA attention kernels: the key tiles that each block of rows must
// look at. The host makes it with the CPU kernels' TileIndex. Plain C++ without CUDA: built and tested everywhere.
//
//   row     (query, head of a group): row r of a sequence is query r / group, head r % group, under each kv head
//   block   kTileRows consecutive rows of one sequence
//   tile    kKeyTile consecutive keys of one sequence, from a multiple of kKeyTile on
//
// A block lists the tiles that some query of it may see as ascending runs. So the plan of a causal stream has one run
// per block, and a tree's grows with its branches. It never exceeds the number of visible pairs (block, tile).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/attention/attention.h"

namespace ingot::kernels::cuda {

inline constexpr int kTileRows = 64;
inline constexpr int kTileKeys = 64;
static_assert(kTileKeys == kKeyTile);

// A range [first, last) of tiles, or of blocks.
struct Run {
  int32_t first, last;
};

struct RowBlock {
  int32_t sequence;
  int32_t first_run, last_run;  // in the plan's runs of tiles
  int32_t rows;                 // 1 to kTileRows
  int64_t first_row;            // among the sequence's rows
};

// An AttentionSequence whose arrays lie in the plan's integers.
struct PlannedSequence {
  int64_t q_begin, q_offset, key_begin, key_count;
  int64_t block_table, visible_end, positions;  // index of their first integer; -1 = none
};

struct KeyBlock {
  int32_t tile;
  int32_t first_run, last_run;  // in the plan's runs of blocks
};

// Pointers into a copy of the packed plan.
struct PlanView {
  const PlannedSequence* sequences;
  const RowBlock* blocks;
  const KeyBlock* key_blocks;
  const Run* runs;
  const Run* block_runs;
  const int32_t* integers;
};

class AttentionPlan {
 public:
  // `backward` adds the same pairs ordered by tile, for the gradients of keys and values; it requires one sequence.
  // positions are kept only with a window, since nothing else reads them. REQUIRES: as for AttentionForward.
  AttentionPlan(const AttentionShape& shape, std::span<const AttentionSequence> sequences, int64_t page_size,
                bool backward);

  const std::vector<PlannedSequence>& sequences() const { return sequences_; }
  const std::vector<RowBlock>& blocks() const { return blocks_; }
  const std::vector<Run>& runs() const { return runs_; }
  const std::vector<KeyBlock>& key_blocks() const { return key_blocks_; }  // one per tile, with a backward pass
  const std::vector<Run>& block_runs() const { return block_runs_; }

  // The packed form is one piece of memory, for one copy to the device. Pack writes packed_bytes() bytes. View points
  // to the parts of a copy at `base`, which must be aligned to 16.
  size_t packed_bytes() const;
  void Pack(std::byte* to) const;
  PlanView View(const std::byte* base) const;

 private:
  void AddSequence(const AttentionShape& shape, const AttentionSequence& sequence, int64_t page_size);
  void OrderByTile(int64_t tiles);
  int64_t KeepValues(const int32_t* values, int64_t count);

  template <typename F>
  void ForParts(const F& f) const;

  std::vector<PlannedSequence> sequences_;
  std::vector<RowBlock> blocks_;
  std::vector<KeyBlock> key_blocks_;
  std::vector<Run> runs_, block_runs_;
  std::vector<int32_t> integers_;
};

}  // namespace ingot::kernels::cuda
