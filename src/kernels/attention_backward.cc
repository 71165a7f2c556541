#include <cstring>

#include "kernels/attention.h"
#include "kernels/attention_tiles.h"
#include "kernels/inner.h"

namespace ingot::kernels {
namespace {

using tiles::CeilDiv;
using tiles::Scratch;
using tiles::TileBounds;
using tiles::Visibility;

// Work is shared as (kv head, split): split s of S takes key tiles s, s + S, ... and adds to its own copy of grad_q,
// which are summed in order at the end. S depends on the shape alone, so threads do not change a result.
template <typename T>
struct Problem {
  AttentionShape shape;
  AttentionBackwardArgs<T> args;
  int64_t group;
  int64_t queries_per_tile;
  int64_t splits;
  const T* delta;   // [rows, heads] sum of grad_out * out
  T* grad_q_parts;  // [splits, kv_heads, rows, group, head_dim]

  T* GradQ(int64_t split, int64_t kv_head, int64_t row) const {
    return grad_q_parts + ((split * shape.kv_heads + kv_head) * args.rows + row) * group * shape.head_dim;
  }
};

template <typename T>
class BackwardWorker {
 public:
  BackwardWorker(const Problem<T>& problem, const TileBounds& bounds)
      : p_(problem),
        inner_(inner::Get<T>()),
        bounds_(bounds),
        max_rows_(p_.queries_per_tile * p_.group),
        keys_(kKeyTile * p_.shape.head_dim),
        values_(kKeyTile * p_.shape.head_dim),
        grad_keys_(kKeyTile * p_.shape.head_dim),
        grad_values_(kKeyTile * p_.shape.head_dim),
        q_(max_rows_ * p_.shape.head_dim),
        grad_out_(max_rows_ * p_.shape.head_dim),
        s_(max_rows_ * kKeyTile),
        ds_(max_rows_ * kKeyTile),
        stats_(2 * max_rows_),
        row_pointers_(2 * max_rows_) {
    for (int64_t j = 0; j < kKeyTile; ++j) {
      key_rows_[j] = keys_.get() + j * p_.shape.head_dim;
      value_rows_[j] = values_.get() + j * p_.shape.head_dim;
    }
    for (int64_t r = 0; r < max_rows_; ++r) {
      row_pointers_[r] = q_.get() + r * p_.shape.head_dim;
      row_pointers_[max_rows_ + r] = grad_out_.get() + r * p_.shape.head_dim;
    }
  }

  void Run(int64_t item) {
    const int64_t kv_head = item / p_.splits, split = item % p_.splits;
    const int64_t part = p_.args.rows * p_.group * p_.shape.head_dim;
    std::memset(p_.GradQ(split, kv_head, 0), 0, part * sizeof(T));
    for (int64_t tile = split; tile * kKeyTile < p_.args.rows; tile += p_.splits) KeyTile(tile, kv_head, split);
  }

 private:
  void KeyTile(int64_t tile, int64_t kv_head, int64_t split) {
    const int64_t depth = p_.shape.head_dim, kv_width = p_.shape.kv_heads * depth;
    const int64_t k0 = tile * kKeyTile, cols = std::min(kKeyTile, p_.args.rows - k0);
    for (int64_t j = 0; j < cols; ++j) {
      const int64_t at = (k0 + j) * kv_width + kv_head * depth;
      std::memcpy(keys_.get() + j * depth, p_.args.k + at, depth * sizeof(T));
      std::memcpy(values_.get() + j * depth, p_.args.v + at, depth * sizeof(T));
    }
    std::memset(grad_keys_.get(), 0, cols * depth * sizeof(T));
    std::memset(grad_values_.get(), 0, cols * depth * sizeof(T));
    // Query tiles start at multiples of their size; the first that reaches this key tile holds query k0.
    for (int64_t q0 = k0 / p_.queries_per_tile * p_.queries_per_tile; q0 < p_.args.rows; q0 += p_.queries_per_tile) {
      const int64_t q1 = std::min(p_.args.rows, q0 + p_.queries_per_tile);
      const Visibility visibility = bounds_.Of(q0, q1, tile);
      if (visibility != Visibility::kNone) {
        Pair(q0, q1, k0, cols, visibility == Visibility::kSome || cols < kKeyTile, kv_head, split);
      }
    }
    for (int64_t j = 0; j < cols; ++j) {
      const int64_t at = (k0 + j) * kv_width + kv_head * depth;
      std::memcpy(p_.args.grad_k + at, grad_keys_.get() + j * depth, depth * sizeof(T));
      std::memcpy(p_.args.grad_v + at, grad_values_.get() + j * depth, depth * sizeof(T));
    }
  }

  // One query tile against the loaded key tile.
  void Pair(int64_t q0, int64_t q1, int64_t k0, int64_t cols, bool masked, int64_t kv_head, int64_t split) {
    const int64_t depth = p_.shape.head_dim, rows = (q1 - q0) * p_.group;
    LoadQueries(q0, q1, kv_head);
    T *lse = stats_.get(), *delta = lse + max_rows_;
    inner_.dot(q_.get(), depth, rows, key_rows_, cols, depth, s_.get(), kKeyTile, false);
    if (masked) {
      const int32_t* visible_end = p_.args.visible_end == nullptr ? nullptr : p_.args.visible_end + k0;
      inner_.mask(s_.get(), rows, p_.group, q0, k0, cols, visible_end);
    }
    inner_.dot(grad_out_.get(), depth, rows, value_rows_, cols, depth, ds_.get(), kKeyTile, false);
    if (cols < kKeyTile) ClearColumns(rows, cols);
    inner_.softmax_backward(s_.get(), ds_.get(), rows, lse, delta);
    const T *const *q_rows = row_pointers_.data(), *const *grad_out_rows = q_rows + max_rows_;
    inner_.accumulate(grad_values_.get(), depth, nullptr, cols, depth, s_.get(), 1, kKeyTile, grad_out_rows, rows);
    // q_ carries the scale already; grad_q takes it at the end.
    inner_.accumulate(grad_keys_.get(), depth, nullptr, cols, depth, ds_.get(), 1, kKeyTile, q_rows, rows);
    inner_.accumulate(p_.GradQ(split, kv_head, q0), depth, nullptr, rows, depth, ds_.get(), kKeyTile, 1, key_rows_,
                      cols);
  }

  void LoadQueries(int64_t q0, int64_t q1, int64_t kv_head) {
    const int64_t width = p_.group * p_.shape.head_dim, heads = p_.shape.heads;
    for (int64_t i = q0; i < q1; ++i) {
      const int64_t at = i * heads * p_.shape.head_dim + kv_head * width;
      inner_.scaled_copy(q_.get() + (i - q0) * width, p_.args.q + at, static_cast<T>(p_.shape.scale), width);
      std::memcpy(grad_out_.get() + (i - q0) * width, p_.args.grad_out + at, width * sizeof(T));
      for (int64_t h = 0; h < p_.group; ++h) {
        const int64_t r = (i - q0) * p_.group + h, source = i * heads + kv_head * p_.group + h;
        stats_.get()[r] = p_.args.lse[source];
        stats_.get()[max_rows_ + r] = p_.delta[source];
      }
    }
  }

  // Past the last key dot left garbage, which must not meet a zero probability as not-a-number.
  void ClearColumns(int64_t rows, int64_t cols) {
    for (int64_t r = 0; r < rows; ++r) std::fill_n(ds_.get() + r * kKeyTile + cols, kKeyTile - cols, T(0));
  }

  const Problem<T>& p_;
  const inner::Kernels<T>& inner_;
  const TileBounds& bounds_;
  const int64_t max_rows_;
  Scratch<T> keys_, values_, grad_keys_, grad_values_, q_, grad_out_, s_, ds_, stats_;
  std::vector<const T*> row_pointers_;
  const T* key_rows_[kKeyTile];
  const T* value_rows_[kKeyTile];
};

// Several splits only where the stream is long enough to pay for summing them.
int64_t Splits(int64_t rows) {
  constexpr int64_t kRowsPerSplit = 1024, kMost = 4;
  return std::clamp<int64_t>(rows / kRowsPerSplit, 1, kMost);
}

template <typename T>
void SumGradQ(const Problem<T>& p, const inner::Kernels<T>& inner, int64_t row) {
  const int64_t width = p.group * p.shape.head_dim;
  for (int64_t h = 0; h < p.shape.kv_heads; ++h) {
    T* sum = p.GradQ(0, h, row);
    for (int64_t s = 1; s < p.splits; ++s) {
      const T* part = p.GradQ(s, h, row);
      for (int64_t d = 0; d < width; ++d) sum[d] += part[d];
    }
    T* to = p.args.grad_q + row * p.shape.heads * p.shape.head_dim + h * width;
    inner.scaled_copy(to, sum, static_cast<T>(p.shape.scale), width);
  }
}

}  // namespace

template <typename T>
void AttentionBackward(const AttentionShape& shape, const AttentionBackwardArgs<T>& args, const ParallelFor& parallel) {
  const int64_t rows = args.rows, entries = rows * shape.heads, depth = shape.head_dim;
  if (rows == 0) return;
  const inner::Kernels<T>& inner = inner::Get<T>();
  const int64_t group = shape.heads / shape.kv_heads, splits = Splits(rows);
  Scratch<T> delta(entries), parts(splits * entries * depth);
  const Problem<T> problem{shape,  args,        group,      std::max<int64_t>(1, tiles::kRowsPerTile / group),
                           splits, delta.get(), parts.get()};

  const double row_flops = 4.0 * static_cast<double>(entries * depth);
  tiles::ShareOut(parallel, rows, row_flops, [&] {
    return [&](int64_t row) {
      for (int64_t e = row * shape.heads; e < (row + 1) * shape.heads; ++e) {
        delta.get()[e] = inner.row_dot(args.grad_out + e * depth, args.out + e * depth, depth);
      }
    };
  });
  const TileBounds bounds(args.visible_end, rows);
  tiles::ShareOut(parallel, shape.kv_heads * splits, row_flops * static_cast<double>(rows), [&] {
    auto worker = std::make_unique<BackwardWorker<T>>(problem, bounds);
    return [worker = std::move(worker)](int64_t item) { worker->Run(item); };
  });
  tiles::ShareOut(parallel, rows, row_flops, [&] { return [&](int64_t row) { SumGradQ(problem, inner, row); }; });
}

template void AttentionBackward<float>(const AttentionShape&, const AttentionBackwardArgs<float>&, const ParallelFor&);
template void AttentionBackward<double>(const AttentionShape&, const AttentionBackwardArgs<double>&,
                                        const ParallelFor&);

}  // namespace ingot::kernels
