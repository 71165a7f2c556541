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

// A query tile of one sequence under one or all kv heads.
struct Item {
  int32_t sequence;
  int32_t first_head, last_head;  // kv heads [first, last)
  int64_t first;                  // of the sequence's queries
};

constexpr int64_t kFewRows = 12;  // a query tile of fewer rows, as in decode, waits for memory rather than for sums

template <typename T>
struct Problem {
  AttentionShape shape;
  AttentionForwardArgs<T> args;
  int64_t group;             // query heads per kv head
  int64_t queries_per_tile;  // with the group's heads, about kRowsPerTile rows

  // f(j, key, value) for keys [k0, k0 + cols) of a sequence under one kv head; j counts from 0. Runs of a page at a
  // time: a division per key would cost more than the key does in decode.
  template <typename F>
  void ForKeys(const AttentionSequence& s, int64_t head, int64_t k0, int64_t cols, const F& f) const {
    const int64_t offset = head * shape.head_dim;
    int64_t page = 0, slot = 0;
    if (s.block_table != nullptr) {
      page = k0 / args.page_size;
      slot = k0 % args.page_size;
    }
    for (int64_t j = 0; j < cols; ++page, slot = 0) {
      int64_t row = s.key_begin + k0, run = cols;
      if (s.block_table != nullptr) {
        row = static_cast<int64_t>(s.block_table[page]) * args.page_size + slot;
        run = std::min(cols - j, args.page_size - slot);
      }
      const T *k = args.k + row * args.k_row_stride + offset, *v = args.v + row * args.v_row_stride + offset;
      for (int64_t end = j + run; j < end; ++j, k += args.k_row_stride, v += args.v_row_stride) f(j, k, v);
    }
  }
};

// One thread's state: computes items one after the other.
template <typename T>
class ForwardWorker {
 public:
  explicit ForwardWorker(const Problem<T>& problem)
      : p_(problem),
        inner_(inner::Get<T>()),
        max_rows_(std::max(problem.queries_per_tile * problem.group, kFewRows * p_.shape.kv_heads)),
        q_(max_rows_ * p_.shape.head_dim),
        acc_(max_rows_ * p_.shape.head_dim),
        s_(max_rows_ * kKeyTile),
        stats_(max_rows_ * 3),
        keys_(kKeyTile * p_.shape.head_dim),
        values_(kKeyTile * p_.shape.head_dim) {}

  void Run(const AttentionSequence& seq, const TileBounds& bounds, const Item& item) {
    const int64_t count = std::min(p_.queries_per_tile, seq.q_count - item.first);
    const int64_t rows = count * p_.group, all_rows = rows * (item.last_head - item.first_head);
    for (int64_t h = item.first_head; h < item.last_head; ++h) LoadQueries(seq, item, h, count);
    std::memset(acc_.get(), 0, all_rows * p_.shape.head_dim * sizeof(T));
    std::fill_n(Max(0), all_rows, kMinusInfinity<T>);
    std::fill_n(Sum(0), all_rows, T(0));

    const int64_t q0 = seq.q_offset + item.first, q1 = q0 + count;
    const int64_t keys = std::min(seq.key_count, q1);
    for (int64_t k0 = 0; k0 < keys; k0 += kKeyTile) {
      const Visibility visibility = bounds.Of(q0, q1, k0 / kKeyTile);
      if (visibility == Visibility::kNone) continue;
      const int64_t cols = std::min(kKeyTile, keys - k0);
      const bool masked = visibility == Visibility::kSome || cols < kKeyTile;
      for (int64_t h = item.first_head; h < item.last_head; ++h) {
        LoadTile(seq, h, k0, cols, rows);
        Tile(seq, q0, k0, cols, rows, masked, (h - item.first_head) * rows);
      }
    }
    for (int64_t h = item.first_head; h < item.last_head; ++h) Store(seq, item, h, count);
  }

 private:
  T* Max(int64_t row) { return stats_.get() + row; }
  T* Sum(int64_t row) { return stats_.get() + max_rows_ + row; }
  T* Rescale(int64_t row) { return stats_.get() + 2 * max_rows_ + row; }

  // The loaded key tile against rows [at, at + rows) of the scratch.
  void Tile(const AttentionSequence& seq, int64_t q0, int64_t k0, int64_t cols, int64_t rows, bool masked, int64_t at) {
    const int64_t depth = p_.shape.head_dim;
    inner_.dot(q_.get() + at * depth, depth, rows, key_rows_, cols, depth, s_.get(), kKeyTile, false);
    if (masked) {
      const int32_t* visible_end = seq.visible_end == nullptr ? nullptr : seq.visible_end + k0;
      inner_.mask(s_.get(), rows, p_.group, q0, k0, cols, visible_end);
    }
    inner_.softmax(s_.get(), rows, Max(at), Sum(at), Rescale(at));
    inner_.accumulate(acc_.get() + at * depth, depth, Rescale(at), rows, depth, s_.get(), kKeyTile, 1, value_rows_,
                      cols);
  }

  // Scaled, the heads of a query one after the other.
  void LoadQueries(const AttentionSequence& seq, const Item& item, int64_t head, int64_t count) {
    const int64_t width = p_.group * p_.shape.head_dim;
    T* to = q_.get() + (head - item.first_head) * count * width;
    for (int64_t i = 0; i < count; ++i) {
      const T* from = p_.args.q + (seq.q_begin + item.first + i) * p_.args.q_row_stride + head * width;
      inner_.scaled_copy(to + i * width, from, static_cast<T>(p_.shape.scale), width);
    }
  }

  // Sets key_rows_ and value_rows_. Many rows read a tile often: then it is copied together, since rows of a cache of
  // many heads lie a power of two apart and would evict each other.
  void LoadTile(const AttentionSequence& seq, int64_t head, int64_t k0, int64_t cols, int64_t rows) {
    const int64_t depth = p_.shape.head_dim;
    p_.ForKeys(seq, head, k0, cols, [&](int64_t j, const T* key, const T* value) {
      key_rows_[j] = key;
      value_rows_[j] = value;
    });
    if (rows < kFewRows) {
      Prefetch(seq, head, k0 + kKeyTile);
      return;
    }
    for (int64_t j = 0; j < cols; ++j) {
      T *key = keys_.get() + j * depth, *value = values_.get() + j * depth;
      std::memcpy(key, key_rows_[j], depth * sizeof(T));
      std::memcpy(value, value_rows_[j], depth * sizeof(T));
      key_rows_[j] = key;
      value_rows_[j] = value;
    }
  }

  // Decode waits for memory: pages lie anywhere, so the hardware does not guess the next tile.
  void Prefetch(const AttentionSequence& seq, int64_t head, int64_t k0) {
    constexpr int64_t kLine = 64 / sizeof(T);
    const int64_t cols = std::min(kKeyTile, seq.key_count - k0);
    if (cols <= 0) return;
    p_.ForKeys(seq, head, k0, cols, [&](int64_t, const T* key, const T* value) {
      for (int64_t d = 0; d < p_.shape.head_dim; d += kLine) {
        __builtin_prefetch(key + d);
        __builtin_prefetch(value + d);
      }
    });
  }

  void Store(const AttentionSequence& seq, const Item& item, int64_t kv_head, int64_t count) {
    const int64_t depth = p_.shape.head_dim, heads = p_.shape.heads;
    const int64_t at = (kv_head - item.first_head) * count * p_.group;
    for (int64_t r = 0; r < count * p_.group; ++r) {
      const int64_t row = seq.q_begin + item.first + r / p_.group, head = kv_head * p_.group + r % p_.group;
      const T sum = *Sum(at + r), inverse = sum == T(0) ? T(0) : T(1) / sum;
      inner_.scaled_copy(p_.args.out + (row * heads + head) * depth, acc_.get() + (at + r) * depth, inverse, depth);
      if (p_.args.lse != nullptr) {
        p_.args.lse[row * heads + head] = sum == T(0) ? kMinusInfinity<T> : *Max(at + r) + std::log(sum);
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

// The longest first, so that no thread is left with a long one at the end. Where few rows meet a key, one item takes
// all heads, which lie side by side in memory, unless too few sequences would be left to share out.
std::vector<Item> Plan(std::span<const AttentionSequence> sequences, int64_t group, int64_t kv_heads,
                       int64_t queries_per_tile, double* pairs) {
  constexpr size_t kManySequences = 8;
  std::vector<Item> items;
  for (size_t s = 0; s < sequences.size(); ++s) {
    const AttentionSequence& seq = sequences[s];
    *pairs += static_cast<double>(seq.q_count) * (static_cast<double>(seq.q_offset) + seq.q_count / 2.0);
    const bool together = seq.q_count * group < kFewRows && sequences.size() >= kManySequences;
    const int64_t step = together ? kv_heads : 1;
    for (int64_t tile = CeilDiv(seq.q_count, queries_per_tile) - 1; tile >= 0; --tile) {
      for (int64_t h = 0; h < kv_heads; h += step) {
        items.push_back({static_cast<int32_t>(s), static_cast<int32_t>(h), static_cast<int32_t>(h + step),
                         tile * queries_per_tile});
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
  const std::vector<Item> items = Plan(sequences, problem.group, shape.kv_heads, problem.queries_per_tile, &pairs);
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
