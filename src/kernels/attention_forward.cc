#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/attention.h"
#include "kernels/attention_tiles.h"
#include "kernels/inner.h"

namespace ingot::kernels {
namespace {

using tiles::CeilDiv;
using tiles::Scratch;
using tiles::TileBounds;
using tiles::Visibility;

template <typename T>
constexpr T kMinusInfinity = -std::numeric_limits<T>::infinity();

// A query tile of one sequence under one kv head.
struct Item {
  int32_t sequence;
  int32_t kv_head;
  int64_t first;  // of the sequence's queries
};

template <typename T>
struct Problem {
  AttentionShape shape;
  AttentionForwardArgs<T> args;
  int64_t group;             // query heads per kv head
  int64_t queries_per_tile;  // with the group's heads, about kRowsPerTile rows

  const T* Key(const AttentionSequence& s, int64_t key, int64_t head) const {
    return args.k + RowOf(s, key) * args.k_row_stride + head * shape.head_dim;
  }
  const T* Value(const AttentionSequence& s, int64_t key, int64_t head) const {
    return args.v + RowOf(s, key) * args.v_row_stride + head * shape.head_dim;
  }

 private:
  int64_t RowOf(const AttentionSequence& s, int64_t key) const {
    if (s.block_table == nullptr) return s.key_begin + key;
    return static_cast<int64_t>(s.block_table[key / args.page_size]) * args.page_size + key % args.page_size;
  }
};

// One thread's state: computes items one after the other.
template <typename T>
class ForwardWorker {
 public:
  explicit ForwardWorker(const Problem<T>& problem)
      : p_(problem),
        inner_(inner::Get<T>()),
        max_rows_(problem.queries_per_tile * problem.group),
        q_(max_rows_ * p_.shape.head_dim),
        acc_(max_rows_ * p_.shape.head_dim),
        s_(max_rows_ * kKeyTile),
        stats_(max_rows_ * 3),
        keys_(kKeyTile * p_.shape.head_dim),
        values_(kKeyTile * p_.shape.head_dim) {}

  void Run(const AttentionSequence& seq, const TileBounds& bounds, const Item& item) {
    const int64_t count = std::min(p_.queries_per_tile, seq.q_count - item.first);
    const int64_t rows = count * p_.group, depth = p_.shape.head_dim;
    LoadQueries(seq, item, count);
    std::memset(acc_.get(), 0, rows * depth * sizeof(T));
    T *max = stats_.get(), *sum = max + max_rows_, *rescale = sum + max_rows_;
    std::fill(max, max + rows, kMinusInfinity<T>);
    std::fill(sum, sum + rows, T(0));

    const int64_t q0 = seq.q_offset + item.first, q1 = q0 + count;
    const int64_t key_tiles = CeilDiv(std::min(seq.key_count, q1), kKeyTile);
    for (int64_t tile = 0; tile < key_tiles; ++tile) {
      const Visibility visibility = bounds.Of(q0, q1, tile);
      if (visibility == Visibility::kNone) continue;
      const int64_t k0 = tile * kKeyTile, cols = std::min(kKeyTile, seq.key_count - k0);
      LoadTile(seq, item.kv_head, k0, cols, rows);
      inner_.dot(q_.get(), depth, rows, key_rows_, cols, depth, s_.get(), kKeyTile, false);
      if (visibility == Visibility::kSome || cols < kKeyTile) {
        const int32_t* visible_end = seq.visible_end == nullptr ? nullptr : seq.visible_end + k0;
        inner_.mask(s_.get(), rows, p_.group, q0, k0, cols, visible_end);
      }
      inner_.softmax(s_.get(), rows, max, sum, rescale);
      inner_.accumulate(acc_.get(), depth, rescale, rows, depth, s_.get(), kKeyTile, 1, value_rows_, cols);
    }
    Store(seq, item, count);
  }

 private:
  // Scaled, the heads of a query one after the other.
  void LoadQueries(const AttentionSequence& seq, const Item& item, int64_t count) {
    const int64_t width = p_.group * p_.shape.head_dim;
    for (int64_t i = 0; i < count; ++i) {
      const T* from = p_.args.q + (seq.q_begin + item.first + i) * p_.args.q_row_stride + item.kv_head * width;
      inner_.scaled_copy(q_.get() + i * width, from, static_cast<T>(p_.shape.scale), width);
    }
  }

  // Sets key_rows_ and value_rows_. Many rows read a tile often: then it is copied together, since rows of a cache of
  // many heads lie a power of two apart and would evict each other.
  void LoadTile(const AttentionSequence& seq, int64_t head, int64_t k0, int64_t cols, int64_t rows) {
    constexpr int64_t kWorthCopying = 12;
    const int64_t depth = p_.shape.head_dim;
    for (int64_t j = 0; j < cols; ++j) {
      key_rows_[j] = p_.Key(seq, k0 + j, head);
      value_rows_[j] = p_.Value(seq, k0 + j, head);
    }
    if (rows < kWorthCopying) return;
    for (int64_t j = 0; j < cols; ++j) {
      T *key = keys_.get() + j * depth, *value = values_.get() + j * depth;
      std::memcpy(key, key_rows_[j], depth * sizeof(T));
      std::memcpy(value, value_rows_[j], depth * sizeof(T));
      key_rows_[j] = key;
      value_rows_[j] = value;
    }
  }

  void Store(const AttentionSequence& seq, const Item& item, int64_t count) {
    const int64_t depth = p_.shape.head_dim, heads = p_.shape.heads;
    const T *max = stats_.get(), *sum = max + max_rows_;
    for (int64_t r = 0; r < count * p_.group; ++r) {
      const int64_t row = seq.q_begin + item.first + r / p_.group, head = item.kv_head * p_.group + r % p_.group;
      const T inverse = sum[r] == T(0) ? T(0) : T(1) / sum[r];
      inner_.scaled_copy(p_.args.out + (row * heads + head) * depth, acc_.get() + r * depth, inverse, depth);
      if (p_.args.lse != nullptr) {
        p_.args.lse[row * heads + head] = sum[r] == T(0) ? kMinusInfinity<T> : max[r] + std::log(sum[r]);
      }
    }
  }

  const Problem<T>& p_;
  const inner::Kernels<T>& inner_;
  const int64_t max_rows_;
  Scratch<T> q_, acc_, s_, stats_, keys_, values_;
  const T* key_rows_[kKeyTile];
  const T* value_rows_[kKeyTile];
};

// The longest first, so that no thread is left with a long one at the end.
std::vector<Item> Plan(std::span<const AttentionSequence> sequences, int64_t kv_heads, int64_t queries_per_tile,
                       double* pairs) {
  std::vector<Item> items;
  for (size_t s = 0; s < sequences.size(); ++s) {
    const AttentionSequence& seq = sequences[s];
    *pairs += static_cast<double>(seq.q_count) * (static_cast<double>(seq.q_offset) + seq.q_count / 2.0);
    for (int64_t tile = CeilDiv(seq.q_count, queries_per_tile) - 1; tile >= 0; --tile) {
      for (int64_t h = 0; h < kv_heads; ++h) {
        items.push_back({static_cast<int32_t>(s), static_cast<int32_t>(h), tile * queries_per_tile});
      }
    }
  }
  return items;
}

}  // namespace

template <typename T>
void AttentionForward(const AttentionShape& shape, std::span<const AttentionSequence> sequences,
                      const AttentionForwardArgs<T>& args, const ParallelFor& parallel) {
  Problem<T> problem{shape, args, shape.heads / shape.kv_heads, 0};
  problem.queries_per_tile = std::max<int64_t>(1, tiles::kRowsPerTile / problem.group);
  AttentionForwardArgs<T>& a = problem.args;
  if (a.q_row_stride == 0) a.q_row_stride = shape.heads * shape.head_dim;
  if (a.k_row_stride == 0) a.k_row_stride = shape.kv_heads * shape.head_dim;
  if (a.v_row_stride == 0) a.v_row_stride = shape.kv_heads * shape.head_dim;

  double pairs = 0;
  const std::vector<Item> items = Plan(sequences, shape.kv_heads, problem.queries_per_tile, &pairs);
  std::vector<TileBounds> bounds;
  bounds.reserve(sequences.size());
  for (const AttentionSequence& s : sequences) bounds.emplace_back(s.visible_end, s.key_count);

  const double flops = 4.0 * pairs * static_cast<double>(shape.heads * shape.head_dim);
  tiles::ShareOut(parallel, static_cast<int64_t>(items.size()), flops, [&] {
    auto worker = std::make_unique<ForwardWorker<T>>(problem);
    return [&, worker = std::move(worker)](int64_t i) {
      const Item& item = items[i];
      worker->Run(sequences[item.sequence], bounds[item.sequence], item);
    };
  });
}

template void AttentionForward<float>(const AttentionShape&, std::span<const AttentionSequence>,
                                      const AttentionForwardArgs<float>&, const ParallelFor&);
template void AttentionForward<double>(const AttentionShape&, std::span<const AttentionSequence>,
                                       const AttentionForwardArgs<double>&, const ParallelFor&);

}  // namespace ingot::kernels
