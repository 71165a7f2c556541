#include "kernels/cuda/decode_plan.h"

#include <algorithm>
#include <iterator>
#include <type_traits>

#include "kernels/cuda/packed.h"

namespace ingot::kernels::cuda {
namespace {

// Equal prefixes have equal pages, so few of a chunk's pages tell most chunks apart. Find compares them all.
uint64_t HashOf(int32_t chunk, const int32_t* pages, int64_t count) {
  constexpr uint64_t kFactor = 0x9E3779B97F4A7C15ull;
  uint64_t hash = static_cast<uint64_t>(chunk);
  for (const int64_t word : {count, int64_t{pages[0]}, int64_t{pages[count - 1]}}) {
    hash = (hash ^ static_cast<uint64_t>(word)) * kFactor;
    hash ^= hash >> 32;
  }
  return hash;
}

}  // namespace

bool CanDecode(const AttentionSequence& s, int64_t most_queries) {
  if (s.q_count > most_queries || s.block_table == nullptr) return false;
  const int64_t end = s.q_offset + s.q_count;
  for (int64_t key = 0; key < end; ++key) {
    if (s.visible_end != nullptr && s.visible_end[key] < end) return false;
    if (s.positions != nullptr && s.positions[key] != key) return false;
  }
  return true;
}

namespace {

int64_t FirstKey(int64_t last, int64_t window) { return window == 0 ? 0 : std::max<int64_t>(0, last - window + 1); }

// Returns the number of chunks with keys that a query sees, if the last of them is `last`.
int64_t SlotsOf(int64_t last, int64_t window) { return last / kChunkKeys - FirstKey(last, window) / kChunkKeys + 1; }

}  // namespace

std::vector<std::vector<AttentionSequence>> CutDecodes(std::span<const AttentionSequence> sequences, int64_t window,
                                                       int64_t most_slots) {
  std::vector<std::vector<AttentionSequence>> pieces(1);
  int64_t slots = 0;
  for (const AttentionSequence& s : sequences) {
    for (int64_t first = 0; first < s.q_count;) {
      int64_t count = 0;
      for (; first + count < s.q_count; ++count) {
        const int64_t more = SlotsOf(s.q_offset + first + count, window);
        if (slots > 0 && slots + more > most_slots) break;
        slots += more;
      }
      if (count > 0) {
        AttentionSequence& part = pieces.back().emplace_back(s);
        part.q_begin += first;
        part.q_offset += first;
        part.q_count = count;
        first += count;
      }
      if (first == s.q_count) continue;
      pieces.emplace_back();
      slots = 0;
    }
  }
  return pieces;
}

DecodePlan::DecodePlan(const AttentionShape& shape, std::span<const AttentionSequence> sequences, int64_t page_size)
    : group_(shape.heads / shape.kv_heads), window_(shape.window), page_size_(page_size) {
  for (const AttentionSequence& sequence : sequences) {
    if (sequence.q_count == 0) continue;
    const size_t first_query = queries_.size();
    AddQueries(sequence);
    AddReaders(sequence, first_query);
  }
  for (const Readers& readers : readers_) AddItems(readers);
}

void DecodePlan::AddQueries(const AttentionSequence& s) {
  for (int64_t i = 0; i < s.q_count; ++i) {
    const int64_t last = s.q_offset + i, first = FirstKey(last, window_);
    const int64_t first_chunk = first / kChunkKeys;
    queries_.push_back({static_cast<int32_t>(s.q_begin + i), static_cast<int32_t>(first), static_cast<int32_t>(last),
                        static_cast<int32_t>(slots_ - first_chunk)});
    slots_ += SlotsOf(last, window_);
  }
}

void DecodePlan::AddReaders(const AttentionSequence& s, size_t first_query) {
  const int64_t last_key = queries_.back().last, last_chunk = last_key / kChunkKeys;
  for (int64_t chunk = queries_[first_query].first / kChunkKeys; chunk <= last_chunk; ++chunk) {
    const int64_t begin = chunk * kChunkKeys, end = begin + kChunkKeys;
    const int64_t first_page = begin / page_size_, last_page = (std::min(end, last_key + 1) - 1) / page_size_;
    Readers& readers = Find(static_cast<int32_t>(chunk), s.block_table + first_page, last_page - first_page + 1);
    for (size_t q = first_query; q < queries_.size(); ++q) {
      if (queries_[q].first < end && queries_[q].last >= begin) readers.queries.push_back(static_cast<int32_t>(q));
    }
  }
}

DecodePlan::Readers& DecodePlan::Find(int32_t chunk, const int32_t* pages, int64_t page_count) {
  const uint64_t hash = HashOf(chunk, pages, page_count);
  const auto [begin, end] = by_pages_.equal_range(hash);
  for (auto at = begin; at != end; ++at) {
    Readers& known = readers_[at->second];
    const bool same = known.chunk == chunk && known.page_count == page_count;
    if (same && std::equal(pages, pages + page_count, known.pages)) return known;
  }
  by_pages_.emplace(hash, readers_.size());
  return readers_.emplace_back(Readers{chunk, pages, page_count, {}});
}

void DecodePlan::AddItems(const Readers& readers) {
  const int64_t rows = std::ssize(readers.queries) * group_;
  for (int64_t first = 0; first < rows; first += kDecodeRows) {
    items_.push_back(ItemOf(readers, first, std::min<int64_t>(kDecodeRows, rows - first)));
  }
  list_.insert(list_.end(), readers.queries.begin(), readers.queries.end());
  integers_.insert(integers_.end(), readers.pages, readers.pages + readers.page_count);
}

DecodeItem DecodePlan::ItemOf(const Readers& readers, int64_t first_row, int64_t rows) const {
  const int32_t begin = readers.chunk * kChunkKeys, end = begin + kChunkKeys - 1;
  DecodeItem item{static_cast<int32_t>(list_.size()),
                  static_cast<int32_t>(first_row),
                  static_cast<int32_t>(rows),
                  readers.chunk,
                  end,
                  begin,
                  begin,
                  end,
                  std::ssize(integers_) - begin / page_size_};
  for (int64_t at = first_row / group_; at <= (first_row + rows - 1) / group_; ++at) {
    const DecodeQuery& query = queries_[static_cast<size_t>(readers.queries[static_cast<size_t>(at)])];
    const int32_t first = std::max(begin, query.first), last = std::min(end, query.last);
    item.first = std::min(item.first, first);
    item.last = std::max(item.last, last);
    item.all_first = std::max(item.all_first, first);
    item.all_last = std::min(item.all_last, last);
  }
  return item;
}

size_t DecodePlan::packed_bytes() const { return PackedBytes(items_, queries_, list_, integers_); }

void DecodePlan::Pack(std::byte* to) const { PackParts(to, items_, queries_, list_, integers_); }

DecodeView DecodeRoom::View(const std::byte* base) const {
  return {reinterpret_cast<const DecodeItem*>(base), reinterpret_cast<const DecodeQuery*>(base + queries_at()),
          reinterpret_cast<const int32_t*>(base + list_at()), reinterpret_cast<const int32_t*>(base + integers_at())};
}

int64_t DecodePlan::entries() const { return std::max({std::ssize(items_), std::ssize(list_), slots_}); }

int64_t DecodePlan::PackInto(const DecodeRoom& room, std::byte* to) const {
  const auto write = [to](int64_t at, const auto& values) {
    std::copy(values.begin(), values.end(), reinterpret_cast<std::decay_t<decltype(values[0])>*>(to + at));
  };
  write(0, items_);
  auto* const items = reinterpret_cast<DecodeItem*>(to);
  std::fill(items + items_.size(), items + room.entries, DecodeItem{});
  write(room.queries_at(), queries_);
  auto* const queries = reinterpret_cast<DecodeQuery*>(to + room.queries_at());
  std::fill(queries + queries_.size(), queries + room.queries, DecodeQuery{-1, 0, -1, 0});
  write(room.list_at(), list_);
  write(room.integers_at(), integers_);
  return room.integers_at() + std::ssize(integers_) * static_cast<int64_t>(sizeof(int32_t));
}

DecodeView DecodePlan::View(const std::byte* base) const {
  const auto [items, queries, list, integers] = ViewParts(base, items_, queries_, list_, integers_);
  return {items, queries, list, integers};
}

}  // namespace ingot::kernels::cuda
