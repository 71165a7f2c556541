#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/attention.h"
#include "kernels/attention_inner.h"
#include "kernels/attention_keys.h"
#include "kernels/attention_tiles.h"
#include "kernels/scratch.h"
#include "kernels/tile_index.h"

namespace ingot::kernels {
namespace {

using tiles::CeilDiv;
using tiles::kLn2;
using tiles::QueryRange;
using tiles::Scratch;
using tiles::TileIndex;
using tiles::Visibility;

// A run of queries of one sequence under one or all kv heads: packs each key tile once for all of them.
struct Item {
  int32_t sequence;
  int32_t first_head, last_head;  // kv heads [first, last)
  int64_t first, count;           // of the sequence's queries
  int64_t tiles;                  // visible key tiles times query blocks
};

struct Plan {
  std::vector<Item> items;
  int64_t most_rows = 0;  // of an item, all its heads together
  double tiles = 0;
};

// One thread's state: computes items one after the other.
template <typename T>
class ForwardWorker {
  using Acc = Accumulator<T>;

 public:
  ForwardWorker(const AttentionShape& shape, const AttentionForwardArgs<T>& args, int64_t most_rows)
      : shape_(shape),
        args_(args),
        inner_(inner::GetAttention<T>()),
        group_(shape.heads / shape.kv_heads),
        width_(tiles::RoundUp(shape.head_dim, inner::kAlign)),
        words_(inner::PackedWords(inner_, shape.head_dim)),
        queries_per_block_(tiles::QueriesPerBlock(group_)),
        q_(most_rows * words_),
        acc_(most_rows * width_),
        max_(most_rows),
        lanes_(most_rows * inner::kLanes),
        s_(queries_per_block_ * group_ * kKeyTile),
        rescale_(queries_per_block_ * group_),
        keys_(words_ * kKeyTile),
        values_(inner::PackedWords(inner_, kKeyTile) * width_) {}

  void Run(const AttentionSequence& seq, const TileIndex& index, const Item& item) {
    const inner::Entered entered(inner_);
    const int64_t rows = item.count * group_, all_rows = rows * (item.last_head - item.first_head);
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
        Pack(seq, h, keys);
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

  // The packed key tile against the rows of a query block, which start at `at` of the scratch.
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

  // The key tile as it lies in memory against all rows of the item under one head.
  void Few(const AttentionSequence& seq, const Item& item, int64_t head, const QueryRange& queries, Keys keys,
           Keys next, Visibility visibility) {
    const int64_t heads = item.last_head - item.first_head, turn = head - item.first_head;
    const int64_t rows = (queries.last - queries.first) * group_, at = turn * rows;
    const T *k[kKeyTile], *v[kKeyTile], *next_k[2 * kKeyTile], *next_v[2 * kKeyTile];
    tiles::ForKeys(args_, shape_, seq, head, keys.first, keys.count, [&](int64_t j, const T* key, const T* value) {
      k[j] = key;
      v[j] = value;
    });
    // Its share of the next tile: some keys under all heads, which lie side by side.
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
    if (visibility != Visibility::kAll || keys.count < kKeyTile) {
      inner_.mask(s_.get(), rows, tiles::MaskOf(seq, shape_, group_, block.first, keys.first, keys.count));
    }
    inner_.softmax(s_.get(), rows, tiles::BinaryScale<Acc>(shape_), max_.get() + at, lanes_.get() + at * inner::kLanes,
                   rescale_.get());
  }

  // Queries into scratch, the heads of a query one after the other, and the softmax of nothing but the sink.
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

  void Pack(const AttentionSequence& seq, int64_t head, Keys range) {
    const T *keys[kKeyTile], *values[kKeyTile];
    tiles::ForKeys(args_, shape_, seq, head, range.first, range.count, [&](int64_t j, const T* key, const T* value) {
      keys[j] = key;
      values[j] = value;
    });
    inner_.pack_columns(keys_.get(), keys, range.count, shape_.head_dim);
    inner_.pack_pairs(values_.get(), width_, values, range.count, shape_.head_dim);
  }

  void Store(const AttentionSequence& seq, const Item& item, int64_t kv_head, int64_t at) {
    for (int64_t r = 0; r < item.count * group_; ++r) {
      const int64_t row = seq.q_begin + item.first + r / group_, head = kv_head * group_ + r % group_;
      Acc sum = 0;
      for (int64_t lane = 0; lane < inner::kLanes; ++lane) sum += lanes_.get()[(at + r) * inner::kLanes + lane];
      const Acc inverse = sum == Acc(0) ? Acc(0) : Acc(1) / sum, *from = acc_.get() + (at + r) * width_;
      inner_.store(args_.out + (row * shape_.heads + head) * shape_.head_dim, from, inverse, shape_.head_dim);
      if (args_.lse != nullptr) {
        args_.lse[row * shape_.heads + head] =
            sum == Acc(0) ? -std::numeric_limits<Acc>::infinity()
                          : static_cast<Acc>(max_.get()[at + r] * kLn2 + std::log(static_cast<double>(sum)));
      }
    }
  }

  const AttentionShape& shape_;
  const AttentionForwardArgs<T>& args_;
  const inner::AttentionKernels<T>& inner_;
  const int64_t group_, width_, words_, queries_per_block_;
  Scratch<Acc> q_, acc_, max_, lanes_, s_, rescale_, keys_, values_;
  std::vector<QueryRange> blocks_;
};

// Query blocks of an item. More share the packing of a key tile, fewer leave more items to share out. Does not change
// a result.
int64_t BlocksPerItem(std::span<const AttentionSequence> sequences, int64_t kv_heads, int64_t queries_per_block) {
  constexpr int64_t kMost = 4, kEnoughItems = 128;
  for (int64_t blocks = kMost; blocks > 1; blocks /= 2) {
    int64_t items = 0;
    for (const AttentionSequence& s : sequences) items += CeilDiv(s.q_count, queries_per_block * blocks) * kv_heads;
    if (items >= kEnoughItems) return blocks;
  }
  return 1;
}

// The longest first, so that no thread is left with a long one at the end. Where few rows meet a key, one item takes
// all heads, which lie side by side in memory, unless too few sequences would be left to share out.
Plan MakePlan(const AttentionShape& shape, std::span<const AttentionSequence> sequences,
              std::span<const TileIndex> indexes) {
  constexpr size_t kManySequences = 8;
  const int64_t group = shape.heads / shape.kv_heads, per_block = tiles::QueriesPerBlock(group);
  const int64_t per_item = BlocksPerItem(sequences, shape.kv_heads, per_block) * per_block;
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
  const Plan plan = MakePlan(shape, sequences, indexes);
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
