#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/attention/attention.h"
#include "kernels/attention/attention_inner.h"
#include "kernels/attention/attention_keys.h"
#include "kernels/attention/tile_index.h"
#include "kernels/scratch.h"
#include "kernels/share_out.h"

namespace ingot::kernels {
namespace {

using tiles::CeilDiv;
using tiles::kLn2;
using tiles::QueryRange;
using tiles::Scratch;
using tiles::TileIndex;
using tiles::Visibility;

// A run of queries from one sequence for one or all kv heads. Each key tile is packed once for all of them.
struct Item {
  int32_t sequence;
  int32_t first_head, last_head;  // kv heads [first, last)
  int64_t first, count;           // among the sequence's queries
  int64_t tiles;                  // visible key tiles times query blocks
};

struct Plan {
  std::vector<Item> items;
  int64_t most_rows = 0;  // maximum per item, over all its heads
  double tiles = 0;
};

// One thread's state. Computes items one after another.
template <typename T>
class ForwardWorker {
  using Acc = Accumulator<T>;

 public:
  ForwardWorker(const AttentionShape& shape, const AttentionForwardArgs<T>& args, int64_t rows)
      : shape_(shape),
        args_(args),
        inner_(inner::GetAttention<T>()),
        fused_(shape.soft_cap == 0 ? inner_.blocks : nullptr),
        most_rows_(fused_ == nullptr ? rows : tiles::RoundUp(rows, fused_->rows)),
        group_(shape.heads / shape.kv_heads),
        width_(tiles::RoundUp(shape.head_dim, inner::kAlign)),
        words_(inner::PackedWords(inner_, shape.head_dim)),
        queries_per_block_(tiles::QueriesPerBlock(group_)),
        q_(most_rows_ * words_),
        acc_(most_rows_ * width_),
        max_(most_rows_),
        lanes_(most_rows_ * inner::kLanes),
        s_(queries_per_block_ * group_ * kKeyTile),
        rescale_(queries_per_block_ * group_),
        key_words_(words_ * kKeyTile),
        value_words_(inner::PackedWords(inner_, kKeyTile) * width_),
        keys_(PackedTiles() * key_words_),
        values_(PackedTiles() * value_words_) {}

  void Run(const AttentionSequence& seq, const TileIndex& index, const Item& item) {
    const inner::KernelScope entered(inner_);
    const int64_t rows = item.count * group_, all_rows = rows * (item.last_head - item.first_head);
    if (fused_ != nullptr && rows > inner::kFew) return RunBlocks(seq, index, item);
    for (int64_t h = item.first_head; h < item.last_head; ++h) Begin(seq, item, h, (h - item.first_head) * rows);
    std::memset(acc_.get(), 0, all_rows * width_ * sizeof(Acc));

    const int64_t q0 = seq.q_offset + item.first;
    const QueryRange all = index.Queries(q0, q0 + item.count);
    blocks_.clear();
    for (int64_t i = 0; i < item.count; i += queries_per_block_) {
      blocks_.push_back(index.Queries(q0 + i, q0 + std::min(item.count, i + queries_per_block_)));
    }
    const int64_t end = index.End(all);
    for (int64_t tile = index.Next(0, end, all), next; tile < end; tile = next) {
      next = index.Next(tile + 1, end, all);
      const Keys keys = KeysOf(seq, tile, all.last), following = next < end ? KeysOf(seq, next, all.last) : Keys{};
      for (int64_t h = item.first_head; h < item.last_head; ++h) {
        const int64_t at = (h - item.first_head) * rows;
        if (rows <= inner::kFew) {
          Few(seq, item, h, all, keys, following, index.Of(all, tile));
          continue;
        }
        Pack(seq, h, keys, 0);
        for (const QueryRange& block : blocks_) {
          const Visibility visibility = index.Of(block, tile);
          if (visibility != Visibility::kNone) Block(seq, block, keys, visibility, at + (block.first - q0) * group_);
        }
      }
    }
    for (int64_t h = item.first_head; h < item.last_head; ++h) Store(seq, item, h, (h - item.first_head) * rows);
  }

 private:
  struct Keys {
    int64_t first = 0, count = 0;
  };
  static Keys KeysOf(const AttentionSequence& seq, int64_t tile, int64_t last_query) {
    return {tile * kKeyTile, std::min({kKeyTile, seq.key_count - tile * kKeyTile, last_query - tile * kKeyTile})};
  }

  // Processes one packed key tile with a query block's rows, which start at `at` in the scratch memory.
  void Block(const AttentionSequence& seq, const QueryRange& block, Keys keys, Visibility visibility, int64_t at) {
    const int64_t rows = (block.last - block.first) * group_;
    inner_.gemm({.c = s_.get(),
                 .ldc = kKeyTile,
                 .row_scale = nullptr,
                 .add = false,
                 .rows = rows,
                 .width = tiles::RoundUp(keys.count, inner::kAlign),
                 .depth = words_,
                 .a = q_.get() + at * words_,
                 .row_step = words_,
                 .k_step = 1,
                 .b = keys_.get(),
                 .ldb = kKeyTile});
    Softmax(seq, block, keys, visibility, at);
    inner_.gemm({.c = acc_.get() + at * width_,
                 .ldc = width_,
                 .row_scale = rescale_.get(),
                 .add = true,
                 .rows = rows,
                 .width = width_,
                 .depth = CeilDiv(keys.count, inner_.pack),
                 .a = s_.get(),
                 .row_step = kKeyTile,
                 .k_step = 1,
                 .b = values_.get(),
                 .ldb = width_});
  }

  // RunBlocks packs this many key tiles, then applies one block after another to them. The block stays in the L1 cache,
  // and the tiles stay in the L2 cache.
  static constexpr int64_t kMaxPacked = 4;
  int64_t PackedTiles() const { return fused_ == nullptr ? 1 : kMaxPacked; }

  // Computes an item with one kv head on a machine that combines both steps of a tile.
  void RunBlocks(const AttentionSequence& seq, const TileIndex& index, const Item& item) {
    const inner::BlockForward<T>& inner = *fused_;
    const int64_t rows = item.count * group_, q0 = seq.q_offset + item.first, head = item.first_head;
    BeginBlocks(seq, item);
    blocks_.clear();
    for (int64_t r = 0; r < rows; r += inner.rows) {
      blocks_.push_back(index.Queries(q0 + r / group_, q0 + (std::min(rows, r + inner.rows) - 1) / group_ + 1));
    }
    const QueryRange all = index.Queries(q0, q0 + item.count);
    const int64_t end = index.End(all);
    for (int64_t tile = index.Next(0, end, all); tile < end;) {
      int64_t packed[kMaxPacked], count = 0;
      for (; tile < end && count < PackedTiles(); tile = index.Next(tile + 1, end, all)) {
        Pack(seq, head, KeysOf(seq, tile, all.last), count);
        packed[count++] = tile;
      }
      block_tiles_.clear();
      for (size_t b = 0; b < blocks_.size(); ++b) {
        for (int64_t i = 0; i < count; ++i) {
          const Visibility visibility = index.Of(blocks_[b], packed[i]);
          if (visibility == Visibility::kNone) continue;
          inner::BlockTile<Acc>& t = block_tiles_.emplace_back(BlockOf(static_cast<int64_t>(b), rows));
          const Keys keys = KeysOf(seq, packed[i], all.last);
          t.keys = keys_.get() + i * key_words_;
          t.values = values_.get() + i * value_words_;
          t.masked = visibility != Visibility::kAll || keys.count < kKeyTile;
          if (t.masked) t.mask = tiles::MaskOf(seq, shape_, group_, blocks_[b].first, keys.first, keys.count);
        }
      }
      inner.run(block_tiles_.data(), static_cast<int64_t>(block_tiles_.size()), shape_.head_dim,
                tiles::BinaryScale<Acc>(shape_));
    }
    FinishBlocks(seq, item);
  }

  inner::BlockTile<Acc> BlockOf(int64_t block, int64_t rows) const {
    const int64_t at = block * fused_->rows;
    inner::BlockTile<Acc> t{};
    t.q = q_.get() + at * words_;
    t.rows = std::min(rows - at, fused_->rows);
    t.out = acc_.get() + at * width_;
    t.max = max_.get() + at;
    t.lanes = lanes_.get() + at * inner::kLanes;
    t.queries = query_of_row_.data() + at;
    t.positions = position_of_row_.data() + at;
    return t;
  }

  void BeginBlocks(const AttentionSequence& seq, const Item& item) {
    const inner::BlockForward<T>& inner = *fused_;
    const int64_t rows = item.count * group_;
    query_of_row_.assign(static_cast<size_t>(most_rows_), -1);
    position_of_row_.assign(static_cast<size_t>(most_rows_), 0);
    std::fill_n(max_.get(), most_rows_, -std::numeric_limits<Acc>::infinity());
    for (int64_t at = 0; at < rows; at += inner.rows) {
      const int64_t count = std::min(inner.rows, rows - at);
      query_rows_.clear();
      for (int64_t r = at; r < at + count; ++r) {
        const int64_t query = item.first + r / group_, head = item.first_head * group_ + r % group_;
        query_rows_.push_back(args_.q + (seq.q_begin + query) * args_.q_row_stride + head * shape_.head_dim);
        query_of_row_[static_cast<size_t>(r)] = static_cast<int32_t>(seq.q_offset + query);
        if (shape_.window > 0 && seq.positions != nullptr)
          position_of_row_[static_cast<size_t>(r)] = seq.positions[seq.q_offset + query];
        if (args_.sinks != nullptr) max_.get()[r] = static_cast<Acc>(static_cast<double>(args_.sinks[head]) / kLn2);
      }
      inner.pack_queries(q_.get() + at * words_, query_rows_.data(), count, shape_.head_dim);
      inner.begin(BlockOf(at / inner.rows, rows), shape_.head_dim);
    }
  }

  void FinishBlocks(const AttentionSequence& seq, const Item& item) {
    const inner::BlockForward<T>& inner = *fused_;
    const int64_t rows = item.count * group_;
    for (int64_t at = 0; at < rows; at += inner.rows) {
      const int64_t count = std::min(inner.rows, rows - at);
      out_rows_.clear();
      for (int64_t r = at; r < at + count; ++r) {
        const int64_t row = seq.q_begin + item.first + r / group_, head = item.first_head * group_ + r % group_;
        out_rows_.push_back(args_.out + (row * shape_.heads + head) * shape_.head_dim);
      }
      inner.finish(BlockOf(at / inner.rows, rows), shape_.head_dim, out_rows_.data(), rescale_.get());
      for (int64_t r = at; args_.lse != nullptr && r < at + count; ++r) {
        const int64_t row = seq.q_begin + item.first + r / group_, head = item.first_head * group_ + r % group_;
        args_.lse[row * shape_.heads + head] = LogSumExp(max_.get()[r], rescale_.get()[r - at]);
      }
    }
  }

  // Processes the unpacked key tile with all of the item's rows for one head.
  void Few(const AttentionSequence& seq, const Item& item, int64_t head, const QueryRange& queries, Keys keys,
           Keys next, Visibility visibility) {
    const int64_t heads = item.last_head - item.first_head, turn = head - item.first_head;
    const int64_t rows = (queries.last - queries.first) * group_, at = turn * rows;
    const T *k[kKeyTile], *v[kKeyTile], *next_k[2 * kKeyTile], *next_v[2 * kKeyTile];
    tiles::ForKeys(args_, shape_, seq, head, keys.first, keys.count, [&](int64_t j, const T* key, const T* value) {
      k[j] = key;
      v[j] = value;
    });
    // This head's share of the next tile's prefetches: some keys for all heads, which are adjacent in memory.
    const int64_t share = CeilDiv(next.count, heads), first = std::min(next.count, turn * share);
    int64_t asked = 0;
    const int64_t count = std::min(share, next.count - first);
    tiles::ForKeys(args_, shape_, seq, item.first_head, next.first + first, count,
                   [&](int64_t, const T* key, const T* value) {
                     for (int64_t h = 0; h < heads && asked < 2 * kKeyTile; ++h, ++asked) {
                       next_k[asked] = key + h * shape_.head_dim;
                       next_v[asked] = value + h * shape_.head_dim;
                     }
                   });
    inner_.few_scores({rows, shape_.head_dim, k, keys.count, next_k, asked}, s_.get(), q_.get() + at * words_);
    Softmax(seq, queries, keys, visibility, at);
    inner_.few_output({rows, shape_.head_dim, v, keys.count, next_v, asked}, acc_.get() + at * width_, width_,
                      rescale_.get(), s_.get());
  }

  void Softmax(const AttentionSequence& seq, const QueryRange& block, Keys keys, Visibility visibility, int64_t at) {
    const int64_t rows = (block.last - block.first) * group_;
    tiles::CapScores(shape_, rows, s_.get());
    if (visibility != Visibility::kAll || keys.count < kKeyTile) {
      inner_.mask(s_.get(), rows, tiles::MaskOf(seq, shape_, group_, block.first, keys.first, keys.count));
    }
    inner_.softmax(s_.get(), rows, tiles::BinaryScale<Acc>(shape_), max_.get() + at, lanes_.get() + at * inner::kLanes,
                   rescale_.get());
  }

  // Writes queries to scratch memory, with a query's heads one after another, and the softmax of the sink alone.
  void Begin(const AttentionSequence& seq, const Item& item, int64_t head, int64_t at) {
    constexpr Acc kMinusInfinity = -std::numeric_limits<Acc>::infinity();
    std::memset(lanes_.get() + at * inner::kLanes, 0, item.count * group_ * inner::kLanes * sizeof(Acc));
    const T* heads[inner::kKeys];
    for (int64_t i = 0; i < item.count; ++i) {
      const T* from = args_.q + (seq.q_begin + item.first + i) * args_.q_row_stride + head * group_ * shape_.head_dim;
      for (int64_t h = 0; h < group_; h += inner::kKeys) {
        const int64_t n = std::min(inner::kKeys, group_ - h);
        for (int64_t j = 0; j < n; ++j) heads[j] = from + (h + j) * shape_.head_dim;
        inner_.pack_rows(q_.get() + (at + i * group_ + h) * words_, heads, n, shape_.head_dim);
      }
      for (int64_t h = 0, r = at + i * group_; h < group_; ++h, ++r) {
        max_.get()[r] = kMinusInfinity;
        if (args_.sinks == nullptr) continue;
        max_.get()[r] = static_cast<Acc>(static_cast<double>(args_.sinks[head * group_ + h]) / kLn2);
        lanes_.get()[r * inner::kLanes] = max_.get()[r] == kMinusInfinity ? Acc(0) : Acc(1);
      }
    }
  }

  void Pack(const AttentionSequence& seq, int64_t head, Keys range, int64_t slot) {
    const T *keys[kKeyTile], *values[kKeyTile];
    tiles::ForKeys(args_, shape_, seq, head, range.first, range.count, [&](int64_t j, const T* key, const T* value) {
      keys[j] = key;
      values[j] = value;
    });
    if (fused_ != nullptr) {
      fused_->pack_keys(keys_.get() + slot * key_words_, keys, range.count, shape_.head_dim);
      fused_->pack_values(values_.get() + slot * value_words_, values, range.count, shape_.head_dim);
      return;
    }
    inner_.pack_columns(keys_.get(), keys, range.count, shape_.head_dim);
    inner_.pack_pairs(values_.get(), width_, values, range.count, shape_.head_dim);
  }

  static Acc LogSumExp(Acc max, Acc sum) {
    return sum == Acc(0) ? -std::numeric_limits<Acc>::infinity()
                         : static_cast<Acc>(max * kLn2 + std::log(static_cast<double>(sum)));
  }

  void Store(const AttentionSequence& seq, const Item& item, int64_t kv_head, int64_t at) {
    for (int64_t r = 0; r < item.count * group_; ++r) {
      const int64_t row = seq.q_begin + item.first + r / group_, head = kv_head * group_ + r % group_;
      Acc sum = 0;
      for (int64_t lane = 0; lane < inner::kLanes; ++lane) sum += lanes_.get()[(at + r) * inner::kLanes + lane];
      const Acc inverse = sum == Acc(0) ? Acc(0) : Acc(1) / sum, *from = acc_.get() + (at + r) * width_;
      inner_.store(args_.out + (row * shape_.heads + head) * shape_.head_dim, from, inverse, shape_.head_dim);
      if (args_.lse != nullptr) {
        args_.lse[row * shape_.heads + head] = LogSumExp(max_.get()[at + r], sum);
      }
    }
  }

  const AttentionShape& shape_;
  const AttentionForwardArgs<T>& args_;
  const inner::AttentionKernels<T>& inner_;
  const inner::BlockForward<T>* const fused_;  // null = run each step of a tile separately
  const int64_t most_rows_, group_, width_, words_, queries_per_block_;
  Scratch<Acc> q_, acc_, max_, lanes_, s_, rescale_;
  const int64_t key_words_, value_words_;  // per packed tile
  Scratch<Acc> keys_, values_;
  std::vector<QueryRange> blocks_;
  std::vector<inner::BlockTile<Acc>> block_tiles_;
  std::vector<int32_t> query_of_row_, position_of_row_;
  std::vector<const T*> query_rows_;
  std::vector<T*> out_rows_;
};

// Returns the query blocks per item. With more blocks, fewer items pack the same key tile. With fewer, more items
// remain for the threads. The choice does not change results. With BlockForward, packing a key tile takes half as long
// as a block's two steps.
int64_t BlocksPerItem(std::span<const AttentionSequence> sequences, int64_t kv_heads, int64_t queries_per_block,
                      bool one_step) {
  const int64_t most = one_step ? 16 : 4, enough_items = one_step ? 32 : 128;
  for (int64_t blocks = most; blocks > 1; blocks /= 2) {
    int64_t items = 0;
    for (const AttentionSequence& s : sequences) items += CeilDiv(s.q_count, queries_per_block * blocks) * kv_heads;
    if (items >= enough_items) return blocks;
  }
  return 1;
}

// Puts the longest items first, so that no thread is left with a long one at the end. If few rows share a key, one item
// contains all heads, which are adjacent in memory. With few sequences, each head is a separate item, which keeps all
// threads busy.
Plan MakePlan(const AttentionShape& shape, std::span<const AttentionSequence> sequences,
              std::span<const TileIndex> indexes, bool one_step) {
  constexpr size_t kManySequences = 8;
  const int64_t group = shape.heads / shape.kv_heads, per_block = tiles::QueriesPerBlock(group);
  const int64_t per_item = BlocksPerItem(sequences, shape.kv_heads, per_block, one_step) * per_block;
  Plan plan;
  for (size_t s = 0; s < sequences.size(); ++s) {
    const AttentionSequence& seq = sequences[s];
    const bool together = seq.q_count * group <= inner::kFew && sequences.size() >= kManySequences;
    const int64_t step = together ? shape.kv_heads : 1;
    for (int64_t first = 0; first < seq.q_count; first += per_item) {
      const int64_t count = std::min(per_item, seq.q_count - first);
      const QueryRange range = indexes[s].Queries(seq.q_offset + first, seq.q_offset + first + count);
      const int64_t tiles = indexes[s].Count(0, indexes[s].End(range), range) * CeilDiv(count, per_block) * step;
      plan.most_rows = std::max(plan.most_rows, count * group * step);
      for (int64_t h = 0; h < shape.kv_heads; h += step) {
        plan.items.push_back(
            {static_cast<int32_t>(s), static_cast<int32_t>(h), static_cast<int32_t>(h + step), first, count, tiles});
        plan.tiles += static_cast<double>(tiles);
      }
    }
  }
  if (plan.items.size() > 1) {
    std::stable_sort(plan.items.begin(), plan.items.end(),
                     [](const Item& a, const Item& b) { return a.tiles > b.tiles; });
  }
  return plan;
}

}  // namespace

template <typename T>
void AttentionForward(const AttentionShape& shape, std::span<const AttentionSequence> sequences,
                      const AttentionForwardArgs<T>& args, const ParallelFor& parallel) {
  AttentionForwardArgs<T> a = args;
  if (a.q_row_stride == 0) a.q_row_stride = shape.heads * shape.head_dim;
  if (a.k_row_stride == 0) a.k_row_stride = shape.kv_heads * shape.head_dim;
  if (a.v_row_stride == 0) a.v_row_stride = shape.kv_heads * shape.head_dim;

  std::vector<TileIndex> indexes;
  indexes.reserve(sequences.size());
  for (const AttentionSequence& s : sequences) {
    indexes.emplace_back(s.visible_end, s.positions, shape.window, s.key_count);
  }
  const Plan plan = MakePlan(shape, sequences, indexes, inner::GetAttention<T>().blocks != nullptr);
  const double flops = plan.tiles * 4.0 * static_cast<double>(kKeyTile * tiles::kRowsPerBlock * shape.head_dim);
  tiles::ShareOut(parallel, static_cast<int64_t>(plan.items.size()), flops, [&] {
    auto worker = std::make_unique<ForwardWorker<T>>(shape, a, plan.most_rows);
    return [&, worker = std::move(worker)](int64_t i) {
      const Item& item = plan.items[static_cast<size_t>(i)];
      worker->Run(sequences[item.sequence], indexes[item.sequence], item);
    };
  });
}

#define INGOT_INSTANTIATE(T)                                                                   \
  template void AttentionForward<T>(const AttentionShape&, std::span<const AttentionSequence>, \
                                    const AttentionForwardArgs<T>&, const ParallelFor&);
INGOT_INSTANTIATE(BFloat16)
INGOT_INSTANTIATE(float)
INGOT_INSTANTIATE(double)

}  // namespace ingot::kernels
