// Builds the work list for a decode launch on CUDA: which rows read which keys together. Plain C++ without CUDA, so it
// is built and tested everywhere.
//
//   chunk   kChunkKeys consecutive keys of a sequence, starting at a multiple of kChunkKeys
//   row     (query, head of a group), as in attention_plan.h
//   item    up to kDecodeRows rows that see keys of a chunk in the same pages, for each kv head
//   slot    memory for the result of a (query, chunk)
//
// Sequences with a common prefix have its pages in common, so an item reads a chunk of the prefix once for all of their
// rows. Sharing begins and ends at chunks. What an item computes for a row does not depend on its other rows, and the
// chunks of a row do not depend on other sequences. So the bits of a row depend only on its own keys.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "kernels/attention/attention.h"

namespace ingot::kernels::cuda {

inline constexpr int kChunkKeys = 512;
inline constexpr int kDecodeRows = 64;
// A sequence with more queries is not decoded. A decode step has one query per sequence, and its drafts.
inline constexpr int64_t kDecodeQueries = 16;

// Returns whether the sequence can be decoded: at most `most_queries` queries and keys in pages, which the queries see as
// plain causal attention with or without a window. Depends on nothing outside of the sequence, so that the choice of the
// kernel does not either. With exact numerics, there may be any number of queries, so that this choice does not depend on
// how a prompt is cut either.
bool CanDecode(const AttentionSequence& sequence, int64_t most_queries = kDecodeQueries);

// Cuts the sequences into pieces of at most `most_slots` slots (a piece has at least one query), in order. A query's
// results do not depend on it.
std::vector<std::vector<AttentionSequence>> CutDecodes(std::span<const AttentionSequence> sequences, int64_t window,
                                                       int64_t most_slots);

struct DecodeQuery {
  int32_t row;          // in q; -1 = an empty place in a plan with room
  int32_t first, last;  // keys that the query sees
  int32_t slot;         // of chunk c: slot + c, for the chunks from `first` to `last`
};

struct DecodeItem {
  int32_t list;  // index of the first query in the plan's list
  int32_t first_row,
      rows;             // rows 0 = an empty place in a plan with room. Row r is head r % group of query list[r / group]
  int32_t chunk;        // the result of a row is that of its query's slot + chunk
  int32_t first, last;  // keys that some row sees
  int32_t all_first, all_last;  // keys that every row sees; may be empty
  int64_t pages;                // integer pages + k / page_size is the page of key k
};

// Points into a copy of the packed plan.
struct DecodeView {
  const DecodeItem* items;
  const DecodeQuery* queries;
  const int32_t* list;      // indices of queries
  const int32_t* integers;  // pages
};

// The room for plans in memory of a fixed size, so that a launch of the same grid and the same addresses serves every
// plan that fits. Its packed form has `queries` queries and `entries` items, of which those beyond the plan's are empty,
// then `entries` integers for the list, and then the pages.
struct DecodeRoom {
  int64_t queries = 0, entries = 0;

  int64_t queries_at() const { return Padded(entries * static_cast<int64_t>(sizeof(DecodeItem))); }
  int64_t list_at() const { return queries_at() + Padded(queries * static_cast<int64_t>(sizeof(DecodeQuery))); }
  int64_t integers_at() const { return list_at() + Padded(entries * static_cast<int64_t>(sizeof(int32_t))); }
  // Returns the most bytes of a plan with this page size. A chunk's first page begins with its first key or before.
  int64_t bytes(int64_t page_size) const {
    const int64_t pages = (kChunkKeys - 1) / page_size + 2;
    return integers_at() + Padded(entries * pages * static_cast<int64_t>(sizeof(int32_t)));
  }
  DecodeView View(const std::byte* base) const;

 private:
  static int64_t Padded(int64_t bytes) { return (bytes + 15) / 16 * 16; }
};

class DecodePlan {
 public:
  // REQUIRES: CanDecode(every sequence), valid pages, and rows of q below 2^31.
  DecodePlan(const AttentionShape& shape, std::span<const AttentionSequence> sequences, int64_t page_size);

  const std::vector<DecodeItem>& items() const { return items_; }
  const std::vector<DecodeQuery>& queries() const { return queries_; }
  int64_t slots() const { return slots_; }

  // The packed form, as in AttentionPlan.
  size_t packed_bytes() const;
  void Pack(std::byte* to) const;
  DecodeView View(const std::byte* base) const;

  // Returns the entries of the least room for the plan. Its slots are not more.
  int64_t entries() const;
  // Writes the plan in its room's form, and returns the bytes that were written. REQUIRES: room.queries is at least the
  // number of queries, room.entries at least entries(), and memory for room.bytes(page_size).
  int64_t PackInto(const DecodeRoom& room, std::byte* to) const;

 private:
  // The queries that see keys of a chunk in the same pages.
  struct Readers {
    int32_t chunk;
    const int32_t* pages;  // those of the chunk, up to the last key that a query sees
    int64_t page_count;
    std::vector<int32_t> queries;
  };

  void AddQueries(const AttentionSequence& sequence);
  void AddReaders(const AttentionSequence& sequence, size_t first_query);
  Readers& Find(int32_t chunk, const int32_t* pages, int64_t page_count);
  void AddItems(const Readers& readers);
  DecodeItem ItemOf(const Readers& readers, int64_t first_row, int64_t rows) const;

  const int64_t group_, window_, page_size_;
  int64_t slots_ = 0;
  std::vector<Readers> readers_;
  std::unordered_multimap<uint64_t, size_t> by_pages_;  // hash to index in readers_
  std::vector<DecodeItem> items_;
  std::vector<DecodeQuery> queries_;
  std::vector<int32_t> list_, integers_;
};

}  // namespace ingot::kernels::cuda
