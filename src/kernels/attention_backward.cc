#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

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

// Keys and queries are cut into stripes. Phase p takes key stripe k together with query stripe (k + p) mod n, so that
// no two items of a phase add to the same gradient, and every gradient gets its terms in the order of the phases: no
// copies to sum up, and no dependence on threads. The cut depends on the shape alone.
struct Stripes {
  int64_t keys, queries;  // per stripe: key tiles and query blocks are not cut
  int64_t key_stripes, query_stripes;
  int64_t Phases() const { return std::max(key_stripes, query_stripes); }
};

Stripes CutStripes(int64_t keys, int64_t rows, int64_t queries_per_block, int64_t most) {
  constexpr int64_t kLeast = 2 * kKeyTile;
  Stripes s;
  s.keys = tiles::RoundUp(std::max(kLeast, CeilDiv(keys, most)), kKeyTile);
  s.queries = tiles::RoundUp(std::max(kLeast, CeilDiv(rows, most)), queries_per_block);
  s.key_stripes = CeilDiv(keys, s.keys);
  s.query_stripes = CeilDiv(rows, s.queries);
  return s;
}

struct Item {
  int64_t kv_head, first_key, first_query;  // of a stripe; queries count from the first row
  int64_t tiles;                            // visible pairs of a key tile and a query block
};

template <typename T>
struct Problem {
  using Acc = Accumulator<T>;
  AttentionShape shape;
  AttentionBackwardArgs<T> args;
  AttentionSequence sequence;
  int64_t group, width, queries_per_block;
  Stripes stripes;
  const Acc *lse2, *delta;  // [rows, heads] log-sum-exp in base 2, sum of grad_out * out
  // [kv_heads, rows * group, width], [kv_heads, keys, width] twice. Where inner.backward_blocks is, rows and keys are
  // rounded up to whole blocks and tiles, each of which has a form of its own.
  Acc *grad_q, *grad_k, *grad_v;
  int64_t all_rows, all_keys;  // that lie there for a kv head

  Acc* GradQ(int64_t kv_head, int64_t query) const { return grad_q + (kv_head * all_rows + query * group) * width; }
  Acc* GradK(int64_t kv_head, int64_t key) const { return grad_k + (kv_head * all_keys + key) * width; }
  Acc* GradV(int64_t kv_head, int64_t key) const { return grad_v + (kv_head * all_keys + key) * width; }

  // Where keys [first, first + count) and their values lie.
  void KeyRows(int64_t kv_head, int64_t first, int64_t count, const T** keys, const T** values) const {
    const int64_t stride = shape.kv_heads * shape.head_dim, at = first * stride + kv_head * shape.head_dim;
    for (int64_t j = 0; j < count; ++j) {
      keys[j] = args.k + at + j * stride;
      values[j] = args.v + at + j * stride;
    }
  }
};

// The queries of a block in the two forms that the products need.
template <typename Acc>
struct PackedQueries {
  explicit PackedQueries(int64_t rows, int64_t words, int64_t pairs, int64_t width)
      : q(rows * words),
        grad_out(rows * words),
        q_pairs(pairs * width),
        grad_out_pairs(pairs * width),
        lse2(rows),
        delta(rows) {}
  Scratch<Acc> q, grad_out, q_pairs, grad_out_pairs, lse2, delta;
  int64_t kv_head = -1, first = -1;  // what lies here
};

template <typename T>
class BackwardWorker {
  using Acc = Accumulator<T>;

 public:
  BackwardWorker(const Problem<T>& problem, const TileIndex& index)
      : p_(problem),
        inner_(inner::GetAttention<T>()),
        index_(index),
        most_rows_(p_.queries_per_block * p_.group),
        words_(inner::PackedWords(inner_, p_.shape.head_dim)),
        key_columns_(words_ * kKeyTile),
        value_columns_(words_ * kKeyTile),
        key_pairs_(inner::PackedWords(inner_, kKeyTile) * p_.width),
        s_(most_rows_ * kKeyTile),
        dp_(most_rows_ * kKeyTile),
        ds_(most_rows_ * kKeyTile),
        rows_(static_cast<size_t>(2 * most_rows_)) {
    const int64_t blocks = std::min(CeilDiv(p_.stripes.queries, p_.queries_per_block), kPackedBlocks);
    for (int64_t b = 0; b < blocks; ++b) {
      packed_.emplace_back(most_rows_, words_, inner::PackedWords(inner_, most_rows_), p_.width);
    }
  }

  void Run(const Item& item) {
    const inner::Entered entered(inner_);
    const int64_t last_query = std::min(p_.args.rows, item.first_query + p_.stripes.queries);
    const int64_t step = static_cast<int64_t>(packed_.size()) * p_.queries_per_block;
    for (int64_t q0 = item.first_query; q0 < last_query; q0 += step) {
      RunQueries(item, q0, std::min(last_query, q0 + step));
    }
  }

 private:
  // As many queries as are kept packed, so that each is packed once. Every gradient still gets its terms in ascending
  // order.
  void RunQueries(const Item& item, int64_t first_query, int64_t last_query) {
    const int64_t last_key = std::min(p_.args.keys, item.first_key + p_.stripes.keys);
    for (int64_t k0 = item.first_key; k0 < last_key; k0 += kKeyTile) {
      const int64_t tile = k0 / kKeyTile, cols = std::min(kKeyTile, p_.args.keys - k0);
      // Queries from the tile's first key on, until the last key's end.
      const int64_t from = std::max(first_query, (k0 - p_.args.q_offset) / p_.queries_per_block * p_.queries_per_block);
      const int64_t to = std::min(last_query, index_.LastQuery(tile) - p_.args.q_offset);
      bool packed = false;
      for (int64_t first = from; first < to; first += p_.queries_per_block) {
        const int64_t last = std::min(p_.args.rows, first + p_.queries_per_block);
        const QueryRange block = index_.Queries(p_.args.q_offset + first, p_.args.q_offset + last);
        const Visibility visibility = index_.Of(block, tile);
        if (visibility == Visibility::kNone) continue;
        if (!packed) PackKeys(item.kv_head, k0, cols);
        packed = true;
        Pair(item.kv_head, first, last, k0, cols, visibility == Visibility::kSome || cols < kKeyTile);
      }
    }
  }

  static constexpr int64_t kPackedBlocks = 8;  // as many as the second-level cache has room for beside the rest

  void PackKeys(int64_t kv_head, int64_t k0, int64_t cols) {
    const int64_t depth = p_.shape.head_dim;
    const T *keys[kKeyTile], *values[kKeyTile];
    p_.KeyRows(kv_head, k0, cols, keys, values);
    inner_.pack_columns(key_columns_.get(), keys, cols, depth);
    inner_.pack_columns(value_columns_.get(), values, cols, depth);
    inner_.pack_pairs(key_pairs_.get(), p_.width, keys, cols, depth);
  }

  const PackedQueries<Acc>& Packed(int64_t kv_head, int64_t first, int64_t last) {
    PackedQueries<Acc>& packed = packed_[static_cast<size_t>(first / p_.queries_per_block) % packed_.size()];
    if (packed.kv_head == kv_head && packed.first == first) return packed;
    packed.kv_head = kv_head;
    packed.first = first;
    const int64_t depth = p_.shape.head_dim, count = (last - first) * p_.group;
    const T **q = rows_.data(), **grad_out = q + most_rows_;
    for (int64_t i = first, r = 0; i < last; ++i) {
      const int64_t head = i * p_.shape.heads + kv_head * p_.group;
      for (int64_t h = head; h < head + p_.group; ++h, ++r) {
        q[r] = p_.args.q + h * depth;
        grad_out[r] = p_.args.grad_out + h * depth;
        packed.lse2.get()[r] = p_.lse2[h];
        packed.delta.get()[r] = p_.delta[h];
      }
    }
    inner_.pack_rows(packed.q.get(), q, count, depth);
    inner_.pack_rows(packed.grad_out.get(), grad_out, count, depth);
    inner_.pack_pairs(packed.q_pairs.get(), p_.width, q, count, depth);
    inner_.pack_pairs(packed.grad_out_pairs.get(), p_.width, grad_out, count, depth);
    return packed;
  }

  // Queries [first, last) against the packed key tile.
  void Pair(int64_t kv_head, int64_t first, int64_t last, int64_t k0, int64_t cols, bool masked) {
    const PackedQueries<Acc>& packed = Packed(kv_head, first, last);
    const int64_t rows = (last - first) * p_.group;
    Scores(s_.get(), packed.q.get(), key_columns_.get(), rows);
    if (masked) {
      const int64_t query = p_.args.q_offset + first;
      inner_.mask(s_.get(), rows, tiles::MaskOf(p_.sequence, p_.shape, p_.group, query, k0, cols));
    }
    Scores(dp_.get(), packed.grad_out.get(), value_columns_.get(), rows);
    inner_.softmax_backward(s_.get(), dp_.get(), ds_.get(), rows, tiles::BinaryScale<Acc>(p_.shape), packed.lse2.get(),
                            packed.delta.get());
    AddRows(p_.GradV(kv_head, k0), s_.get(), packed.grad_out_pairs.get(), rows, cols);
    AddRows(p_.GradK(kv_head, k0), dp_.get(), packed.q_pairs.get(), rows, cols);
    inner_.gemm({.c = p_.GradQ(kv_head, first),
                 .ldc = p_.width,
                 .row_scale = nullptr,
                 .add = true,
                 .rows = rows,
                 .width = p_.width,
                 .depth = CeilDiv(cols, inner_.pack),
                 .a = inner_.pack > 1 ? ds_.get() : dp_.get(),
                 .row_step = kKeyTile / inner_.pack,
                 .k_step = 1,
                 .b = key_pairs_.get(),
                 .ldb = p_.width});
  }

  // s = a b. All columns: those past the last key are zero, and must not meet a zero probability as not-a-number.
  void Scores(Acc* s, const Acc* a, const Acc* b, int64_t rows) {
    inner_.gemm({.c = s,
                 .ldc = kKeyTile,
                 .row_scale = nullptr,
                 .add = false,
                 .rows = rows,
                 .width = kKeyTile,
                 .depth = words_,
                 .a = a,
                 .row_step = words_,
                 .k_step = 1,
                 .b = b,
                 .ldb = kKeyTile});
  }

  // The gradient of the tile's keys or values: c += a^T b over the query rows.
  void AddRows(Acc* c, const Acc* a, const Acc* b, int64_t rows, int64_t cols) {
    inner_.gemm({.c = c,
                 .ldc = p_.width,
                 .row_scale = nullptr,
                 .add = true,
                 .rows = cols,
                 .width = p_.width,
                 .depth = CeilDiv(rows, inner_.pack),
                 .a = a,
                 .row_step = 1,
                 .k_step = kKeyTile,
                 .b = b,
                 .ldb = p_.width});
  }

  const Problem<T>& p_;
  const inner::AttentionKernels<T>& inner_;
  const TileIndex& index_;
  const int64_t most_rows_, words_;
  Scratch<Acc> key_columns_, value_columns_, key_pairs_, s_, dp_, ds_;
  std::vector<const T*> rows_;
  std::vector<PackedQueries<Acc>> packed_;
};

// Where a machine takes the five products of a key tile as one.
template <typename T>
class BlockBackwardWorker {
  using Acc = Accumulator<T>;

 public:
  BlockBackwardWorker(const Problem<T>& problem, const TileIndex& index)
      : p_(problem),
        inner_(inner::GetAttention<T>()),
        blocks_(*inner_.backward_blocks),
        index_(index),
        words_(inner::PackedWords(inner_, p_.shape.head_dim)),
        block_words_(2 * blocks_.rows * words_ + 2 * inner::PackedWords(inner_, blocks_.rows) * p_.width),
        keys_(words_ * kKeyTile),
        values_(words_ * kKeyTile),
        key_pairs_(inner::PackedWords(inner_, kKeyTile) * p_.width),
        packed_(kPackedBlocks * block_words_),
        rows_(static_cast<size_t>(kPackedBlocks)) {
    for (Rows& rows : rows_) {
      rows.lse2.resize(static_cast<size_t>(blocks_.rows));
      rows.delta.resize(static_cast<size_t>(blocks_.rows));
      rows.queries.resize(static_cast<size_t>(blocks_.rows));
      rows.positions.resize(static_cast<size_t>(blocks_.rows));
    }
  }

  void Run(const Item& item) {
    const inner::Entered entered(inner_);
    const int64_t last = std::min(p_.args.rows, item.first_query + p_.stripes.queries) * p_.group;
    for (int64_t r = item.first_query * p_.group; r < last; r += kPackedBlocks * blocks_.rows) {
      RunRows(item, r, std::min(last, r + kPackedBlocks * blocks_.rows));
    }
  }

 private:
  static constexpr int64_t kPackedBlocks = 16;  // their packed forms stay in the second-level cache
  struct Rows {
    QueryRange range{};
    bool packed = false;
    std::vector<Acc> lse2, delta;
    std::vector<int32_t> queries, positions;
  };

  // Rows of the kv head: queries x heads of its group. Every gradient gets its terms in ascending order.
  void RunRows(const Item& item, int64_t first_row, int64_t last_row) {
    const int64_t count = CeilDiv(last_row - first_row, blocks_.rows);
    for (int64_t b = 0; b < count; ++b) {
      const int64_t first = first_row + b * blocks_.rows, last = std::min(last_row, first + blocks_.rows);
      Rows& rows = rows_[static_cast<size_t>(b)];
      rows.packed = false;
      rows.range = index_.Queries(p_.args.q_offset + first / p_.group, p_.args.q_offset + (last - 1) / p_.group + 1);
    }
    const int64_t last_key = std::min(p_.args.keys, item.first_key + p_.stripes.keys);
    for (int64_t k0 = item.first_key; k0 < last_key; k0 += kKeyTile) {
      const int64_t cols = std::min(kKeyTile, p_.args.keys - k0);
      pairs_.clear();
      for (int64_t b = 0; b < count; ++b) {
        Rows& rows = rows_[static_cast<size_t>(b)];
        const Visibility visibility = index_.Of(rows.range, k0 / kKeyTile);
        if (visibility == Visibility::kNone) continue;
        const int64_t first = first_row + b * blocks_.rows;
        if (!rows.packed) PackRows(item.kv_head, first, std::min(last_row, first + blocks_.rows), b);
        inner::BlockPair<Acc>& pair = pairs_.emplace_back(PairOf(b));
        pair.grad_q = p_.GradQ(item.kv_head, 0) + first * p_.width;
        pair.masked = visibility == Visibility::kSome || cols < kKeyTile;
        if (pair.masked) pair.mask = tiles::MaskOf(p_.sequence, p_.shape, p_.group, rows.range.first, k0, cols);
      }
      if (pairs_.empty()) continue;
      PackKeys(item.kv_head, k0, cols);
      blocks_.run(
          {keys_.get(), values_.get(), key_pairs_.get(), p_.GradK(item.kv_head, k0), p_.GradV(item.kv_head, k0)},
          pairs_.data(), static_cast<int64_t>(pairs_.size()), p_.shape.head_dim, tiles::BinaryScale<Acc>(p_.shape));
    }
  }

  inner::BlockPair<Acc> PairOf(int64_t block) {
    const Rows& rows = rows_[static_cast<size_t>(block)];
    inner::BlockPair<Acc> pair{};
    Acc* at = packed_.get() + block * block_words_;
    pair.q = at;
    pair.grad_out = at += blocks_.rows * words_;
    pair.q_pairs = at += blocks_.rows * words_;
    pair.grad_out_pairs = at + inner::PackedWords(inner_, blocks_.rows) * p_.width;
    pair.lse2 = rows.lse2.data();
    pair.delta = rows.delta.data();
    pair.queries = rows.queries.data();
    pair.positions = rows.positions.data();
    return pair;
  }

  void PackRows(int64_t kv_head, int64_t first, int64_t last, int64_t block) {
    Rows& rows = rows_[static_cast<size_t>(block)];
    rows.packed = true;
    std::fill(rows.lse2.begin(), rows.lse2.end(), std::numeric_limits<Acc>::infinity());
    std::fill(rows.delta.begin(), rows.delta.end(), Acc(0));
    q_rows_.clear();
    grad_out_rows_.clear();
    for (int64_t r = first; r < last; ++r) {
      const int64_t query = r / p_.group, at = query * p_.shape.heads + kv_head * p_.group + r % p_.group;
      const auto i = static_cast<size_t>(r - first);
      q_rows_.push_back(p_.args.q + at * p_.shape.head_dim);
      grad_out_rows_.push_back(p_.args.grad_out + at * p_.shape.head_dim);
      rows.lse2[i] = p_.lse2[at];
      rows.delta[i] = p_.delta[at];
      rows.queries[i] = static_cast<int32_t>(p_.args.q_offset + query);
      if (p_.shape.window > 0 && p_.args.positions != nullptr)
        rows.positions[i] = p_.args.positions[p_.args.q_offset + query];
    }
    Acc* at = packed_.get() + block * block_words_;
    if (last - first < blocks_.rows) std::memset(at, 0, static_cast<size_t>(block_words_) * sizeof(Acc));
    const int64_t depth = p_.shape.head_dim, pair_words = inner::PackedWords(inner_, blocks_.rows) * p_.width;
    blocks_.pack_queries(at, q_rows_.data(), last - first, depth);
    blocks_.pack_queries(at + blocks_.rows * words_, grad_out_rows_.data(), last - first, depth);
    blocks_.pack_pairs(at + 2 * blocks_.rows * words_, q_rows_.data(), last - first, depth);
    blocks_.pack_pairs(at + 2 * blocks_.rows * words_ + pair_words, grad_out_rows_.data(), last - first, depth);
  }

  void PackKeys(int64_t kv_head, int64_t k0, int64_t cols) {
    const int64_t depth = p_.shape.head_dim;
    const T *keys[kKeyTile], *values[kKeyTile];
    p_.KeyRows(kv_head, k0, cols, keys, values);
    blocks_.pack_keys(keys_.get(), keys, cols, depth);
    blocks_.pack_keys(values_.get(), values, cols, depth);
    blocks_.pack_key_pairs(key_pairs_.get(), keys, cols, depth);
  }

  const Problem<T>& p_;
  const inner::AttentionKernels<T>& inner_;
  const inner::BlockBackward<T>& blocks_;
  const TileIndex& index_;
  const int64_t words_, block_words_;  // the second of a packed block
  Scratch<Acc> keys_, values_, key_pairs_, packed_;
  std::vector<Rows> rows_;
  std::vector<inner::BlockPair<Acc>> pairs_;
  std::vector<const T*> q_rows_, grad_out_rows_;
};

// The items of every phase, the longest first.
template <typename T>
std::vector<std::vector<Item>> MakePhases(const Problem<T>& p, const TileIndex& index) {
  const Stripes& s = p.stripes;
  const int64_t phases = s.Phases();
  std::vector<std::vector<Item>> plan(static_cast<size_t>(phases));
  for (int64_t k = 0; k < s.key_stripes; ++k) {
    const int64_t first_tile = k * s.keys / kKeyTile,
                  last_tile = CeilDiv(std::min(p.args.keys, (k + 1) * s.keys), kKeyTile);
    for (int64_t q = 0; q < s.query_stripes; ++q) {
      const int64_t begin = q * s.queries, end = std::min(p.args.rows, begin + s.queries);
      int64_t tiles = 0;
      for (int64_t first = begin; first < end; first += p.queries_per_block) {
        const QueryRange block =
            index.Queries(p.args.q_offset + first, p.args.q_offset + std::min(end, first + p.queries_per_block));
        tiles += index.Count(first_tile, std::min(last_tile, index.End(block)), block);
      }
      if (tiles == 0) continue;
      std::vector<Item>& items = plan[static_cast<size_t>((q - k + phases) % phases)];
      for (int64_t h = 0; h < p.shape.kv_heads; ++h) items.push_back({h, k * s.keys, begin, tiles});
    }
  }
  for (std::vector<Item>& items : plan) {
    std::stable_sort(items.begin(), items.end(), [](const Item& a, const Item& b) { return a.tiles > b.tiles; });
  }
  return plan;
}

// From the sums to the caller's arrays.
template <typename T>
void StoreGradQ(const Problem<T>& p, const inner::AttentionKernels<T>& inner, int64_t query) {
  const int64_t depth = p.shape.head_dim;
  const auto scale = static_cast<Accumulator<T>>(p.shape.scale);
  const auto to = [&](int64_t kv_head, int64_t row) {
    return p.args.grad_q + (row / p.group * p.shape.heads + kv_head * p.group + row % p.group) * depth;
  };
  for (int64_t h = 0; h < p.shape.kv_heads; ++h) {
    const int64_t first = query * p.group, last = first + p.group;
    if (inner.backward_blocks == nullptr) {
      for (int64_t r = first; r < last; ++r) inner.store(to(h, r), p.GradQ(h, 0) + r * p.width, scale, depth);
      continue;
    }
    // The blocks that start with a row of this query.
    const int64_t rows = inner.backward_blocks->rows;
    std::vector<T*> block;
    for (int64_t at = tiles::RoundUp(first, rows); at < last; at += rows) {
      block.clear();
      for (int64_t r = at; r < std::min(at + rows, p.args.rows * p.group); ++r) block.push_back(to(h, r));
      inner.backward_blocks->store_grad_q(p.GradQ(h, 0) + at * p.width, depth, scale, block.data(),
                                          static_cast<int64_t>(block.size()));
    }
  }
}

template <typename T>
void StoreGradKeys(const Problem<T>& p, const inner::AttentionKernels<T>& inner, int64_t key) {
  using Acc = Accumulator<T>;
  const int64_t depth = p.shape.head_dim;
  const Acc scale = static_cast<Acc>(p.shape.scale);
  const int64_t row = inner.backward_blocks == nullptr ? 0 : p.width, in_tile = key % kKeyTile;
  std::vector<Acc> rows(static_cast<size_t>(2 * row));
  for (int64_t h = 0; h < p.shape.kv_heads; ++h) {
    const int64_t at = (key * p.shape.kv_heads + h) * depth;
    const Acc *k = p.GradK(h, key), *v = p.GradV(h, key);
    if (inner.backward_blocks != nullptr) {
      inner.backward_blocks->grad_key_row(p.GradK(h, key - in_tile), in_tile, depth, rows.data());
      inner.backward_blocks->grad_key_row(p.GradV(h, key - in_tile), in_tile, depth, rows.data() + row);
      k = rows.data();
      v = rows.data() + row;
    }
    if (p.args.grad_k_sum != nullptr) {
      for (int64_t d = 0; d < depth; ++d) p.args.grad_k_sum[at + d] += k[d] * scale;
      for (int64_t d = 0; d < depth; ++d) p.args.grad_v_sum[at + d] += v[d];
    } else {
      inner.store(p.args.grad_k + at, k, scale, depth);
      inner.store(p.args.grad_v + at, v, Acc(1), depth);
    }
  }
}

// A sink has probability e^(sink - lse) and no value: its score's gradient is that times -delta.
template <typename T>
void GradSink(const AttentionShape& shape, const AttentionBackwardArgs<T>& args, const Accumulator<T>* delta,
              int64_t head) {
  double sum = 0;
  for (int64_t row = 0; row < args.rows; ++row) {
    const int64_t at = row * shape.heads + head;
    if (std::isinf(args.lse[at])) continue;
    sum -= std::exp(static_cast<double>(args.sinks[head]) - static_cast<double>(args.lse[at])) *
           static_cast<double>(delta[at]);
  }
  args.grad_sinks[head] = static_cast<Accumulator<T>>(sum);
}

}  // namespace

template <typename T>
void AttentionBackward(const AttentionShape& shape, const AttentionBackwardArgs<T>& args, const ParallelFor& parallel) {
  using Acc = Accumulator<T>;
  const inner::AttentionKernels<T>& inner = inner::GetAttention<T>();
  const int64_t rows = args.rows, keys = args.keys, entries = rows * shape.heads, depth = shape.head_dim;
  const int64_t group = shape.heads / shape.kv_heads, width = tiles::RoundUp(depth, inner::kAlign);
  const bool blocks = inner.backward_blocks != nullptr;
  // Of queries that are not cut: whole blocks.
  const int64_t block_rows = blocks ? inner.backward_blocks->rows : 1;
  const int64_t per_block = blocks ? block_rows / std::gcd(block_rows, group) : tiles::QueriesPerBlock(group);
  const int64_t all_rows = tiles::RoundUp(rows * group, block_rows),
                all_keys = tiles::RoundUp(keys, blocks ? kKeyTile : 1);
  Scratch<Acc> lse2(entries), delta(entries), grad_q(all_rows * shape.kv_heads * width),
      grad_k(all_keys * shape.kv_heads * width), grad_v(all_keys * shape.kv_heads * width);
  AttentionSequence sequence;
  sequence.visible_end = args.visible_end;
  sequence.positions = args.positions;
  const Problem<T> problem{shape,
                           args,
                           sequence,
                           group,
                           width,
                           per_block,
                           CutStripes(keys, rows, per_block, blocks ? 16 : 32),
                           lse2.get(),
                           delta.get(),
                           grad_q.get(),
                           grad_k.get(),
                           grad_v.get(),
                           all_rows,
                           all_keys};

  const double row_flops = 4.0 * static_cast<double>(shape.heads * depth);
  tiles::ShareOut(parallel, rows, row_flops * static_cast<double>(rows), [&] {
    return [&](int64_t row) {
      for (int64_t e = row * shape.heads; e < (row + 1) * shape.heads; ++e) {
        delta.get()[e] = inner.row_dot(args.grad_out + e * depth, args.out + e * depth, depth);
        // +infinity: a query that saw nothing has probabilities 2^(anything - infinity).
        lse2.get()[e] = args.lse[e] == -std::numeric_limits<Acc>::infinity() ? std::numeric_limits<Acc>::infinity()
                                                                             : static_cast<Acc>(args.lse[e] / kLn2);
      }
      for (int64_t h = 0; h < shape.kv_heads; ++h) {
        const int64_t end = row + 1 < rows ? (row + 1) * group : all_rows;
        std::memset(problem.GradQ(h, row), 0, static_cast<size_t>((end - row * group) * width) * sizeof(Acc));
      }
    };
  });
  tiles::ShareOut(parallel, keys, row_flops * static_cast<double>(keys), [&] {
    return [&](int64_t key) {
      for (int64_t h = 0; h < shape.kv_heads; ++h) {
        const int64_t end = key + 1 < keys ? key + 1 : all_keys;
        std::memset(problem.GradK(h, key), 0, static_cast<size_t>((end - key) * width) * sizeof(Acc));
        std::memset(problem.GradV(h, key), 0, static_cast<size_t>((end - key) * width) * sizeof(Acc));
      }
    };
  });

  const TileIndex index(args.visible_end, args.positions, shape.window, keys);
  const double tile_flops = 10.0 * static_cast<double>(kKeyTile * tiles::kRowsPerBlock * depth);
  for (const std::vector<Item>& items : MakePhases(problem, index)) {
    double tiles = 0;
    for (const Item& item : items) tiles += static_cast<double>(item.tiles);
    const auto count = static_cast<int64_t>(items.size());
    if (blocks) {
      tiles::ShareOut(parallel, count, tiles * tile_flops, [&] {
        auto worker = std::make_unique<BlockBackwardWorker<T>>(problem, index);
        return [&, worker = std::move(worker)](int64_t i) { worker->Run(items[static_cast<size_t>(i)]); };
      });
      continue;
    }
    tiles::ShareOut(parallel, count, tiles * tile_flops, [&] {
      auto worker = std::make_unique<BackwardWorker<T>>(problem, index);
      return [&, worker = std::move(worker)](int64_t i) { worker->Run(items[static_cast<size_t>(i)]); };
    });
  }

  tiles::ShareOut(parallel, rows, row_flops * static_cast<double>(rows),
                  [&] { return [&](int64_t row) { StoreGradQ(problem, inner, row); }; });
  tiles::ShareOut(parallel, keys, row_flops * static_cast<double>(keys),
                  [&] { return [&](int64_t key) { StoreGradKeys(problem, inner, key); }; });
  if (args.sinks != nullptr && args.grad_sinks != nullptr) {
    tiles::ShareOut(parallel, shape.heads, 4.0 * static_cast<double>(entries),
                    [&] { return [&](int64_t head) { GradSink(shape, args, delta.get(), head); }; });
  }
}

#define INGOT_INSTANTIATE(T) \
  template void AttentionBackward<T>(const AttentionShape&, const AttentionBackwardArgs<T>&, const ParallelFor&);
INGOT_INSTANTIATE(BFloat16)
INGOT_INSTANTIATE(float)
INGOT_INSTANTIATE(double)

}  // namespace ingot::kernels
