// Builds the work list for a CUDA attention launch: the key tiles that each block of rows must read. The host builds it
// with the CPU kernels' TileIndex. This is plain C++ without CUDA, so it is built and tested everywhere.
//
//   row     (query, head of a group): row r of a sequence is query r / group, head r % group, for each kv head
//   block   consecutive rows of one sequence: kTileRows, or kMmaRows for the kernel that uses tensor cores
//   tile    kKeyTile consecutive keys of one sequence, starting at a multiple of kKeyTile
//
// A block lists the tiles that any of its queries may see, as ascending runs, and which of them need a mask. So the plan
// for a causal stream has two runs per block, and the plan for a tree grows with its branches. It never has more runs
// than there are visible (block, tile) pairs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/attention/attention.h"
#include "kernels/attention/tile_index.h"

namespace ingot::kernels::cuda {

inline constexpr int kTileRows = 64;
inline constexpr int kMmaRows = 128;
inline constexpr int kTileKeys = 64;
static_assert(kTileKeys == kKeyTile);

// A range [first, last) of blocks. masked 0 = every query of these blocks sees each key of the tile.
struct Run {
  int32_t first, last, masked;
};

// A range [first, last) of tiles. masked 0 = each of these tiles has kTileKeys keys, and every query of the
// block sees all of them.
struct TileRun {
  int32_t first, last, masked;
};

struct RowBlock {
  int32_t sequence;
  int32_t first_run, last_run;  // indices into the plan's tile runs
  int32_t rows;                 // 1 to the plan's rows per block
  int64_t first_row;            // index among the sequence's rows
};

// An AttentionSequence with its arrays stored in the plan's integers.
struct PlannedSequence {
  int64_t q_begin, q_offset, key_begin, key_count;
  int64_t block_table, visible_end, positions;  // index of the first integer; -1 = none
};

// A tile and blocks that read it: all of them, or one of several parts.
struct KeyBlock {
  int32_t tile;
  int32_t first_run, last_run;  // indices into the plan's block runs
  int32_t slot;                 // number of the part, over all tiles; -1 = there is only one
};

// A tile that several key blocks share. Their sums, added in the order of the slots, are the tile's gradients.
struct KeySum {
  int32_t tile, first_slot, last_slot;
};

// The most row blocks that a key block reads, unless a plan would then have more than about kMostKeyParts parts. Keys
// near the root of a tree are read by every row, so a kernel would wait for them alone at its end.
inline constexpr int64_t kMostKeyBlocks = 32, kMostKeyParts = 256;

// Points into a copy of the packed plan.
struct PlanView {
  const PlannedSequence* sequences;
  const RowBlock* blocks;
  const KeyBlock* key_blocks;
  const TileRun* runs;
  const Run* block_runs;
  const KeySum* key_sums;
  const int32_t* integers;
};

class AttentionPlan {
 public:
  // `backward` adds the same pairs ordered by tile, for key and value gradients; there must be only one sequence.
  // Positions are stored only if there is a window. `most_key_blocks` > 0 cuts longer lists of a tile into parts of
  // nearly equal length (kMostKeyBlocks); 0 = never. REQUIRES: same as AttentionForward.
  AttentionPlan(const AttentionShape& shape, std::span<const AttentionSequence> sequences, int64_t page_size,
                bool backward, int block_rows = kTileRows, int64_t most_key_blocks = 0);

  const std::vector<PlannedSequence>& sequences() const { return sequences_; }
  const std::vector<RowBlock>& blocks() const { return blocks_; }
  const std::vector<TileRun>& runs() const { return runs_; }
  // If there is a backward pass: one per tile, in order of tiles or, if lists may be cut, the longest first.
  const std::vector<KeyBlock>& key_blocks() const { return key_blocks_; }
  const std::vector<Run>& block_runs() const { return block_runs_; }
  const std::vector<KeySum>& key_sums() const { return key_sums_; }
  int64_t slots() const { return slots_; }  // parts of all tiles of key_sums()
  // Row blocks that a key block reads.
  int64_t Length(const KeyBlock& keys) const;

  // The packed form is a single block of memory, so copying it to the device takes one transfer. Pack writes
  // packed_bytes() bytes. View returns pointers into a copy at `base`, which must be 16-byte aligned.
  size_t packed_bytes() const;
  void Pack(std::byte* to) const;
  PlanView View(const std::byte* base) const;

 private:
  void AddSequence(const AttentionShape& shape, const AttentionSequence& sequence, int64_t page_size);
  void AddBlock(RowBlock block, const tiles::TileIndex& index, const tiles::QueryRange& queries);
  std::vector<std::vector<Run>> BlocksByTile(int64_t tiles) const;
  void OrderByTile(int64_t tiles, int64_t most_blocks);
  void AddKeyBlocks(int32_t tile, std::span<const Run> runs, int64_t parts);
  int64_t KeepValues(const int32_t* values, int64_t count);

  template <typename F>
  void ForParts(const F& f) const;

  int block_rows_;
  std::vector<PlannedSequence> sequences_;
  std::vector<RowBlock> blocks_;
  std::vector<KeyBlock> key_blocks_;
  std::vector<TileRun> runs_;
  std::vector<Run> block_runs_;
  std::vector<KeySum> key_sums_;
  std::vector<int32_t> integers_;
  int32_t slots_ = 0;
};

}  // namespace ingot::kernels::cuda
