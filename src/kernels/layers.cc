#include "kernels/layers.h"

#include <algorithm>
#include <type_traits>
#include <vector>

#include "kernels/share_out.h"
#include "kernels/simd/inner.h"

namespace ingot::kernels {
namespace {

constexpr int64_t kRowsPerBlock = 32;  // sums over rows are computed per block, then added in order

// Calls body(first, last) over blocks of rows. `values_per_row` decides whether threads are worthwhile.
template <typename F>
void ForRowBlocks(const ParallelFor& parallel, int64_t rows, int64_t values_per_row, const F& body) {
  const int64_t blocks = tiles::CeilDiv(rows, kRowsPerBlock);
  const double flops = 4.0 * static_cast<double>(rows) * static_cast<double>(values_per_row);
  tiles::ShareOut(parallel, blocks, flops, [&] {
    return [&](int64_t block) { body(block * kRowsPerBlock, std::min(rows, (block + 1) * kRowsPerBlock)); };
  });
}

// Holds up to n numbers of a gradient's inputs and results, in the type of its sums. bf16 is widened in scratch memory
// that is small enough for a core's cache. Other types stay in place.
template <typename T>
class WideRow {
 public:
  using Acc = Accumulator<T>;
  explicit WideRow(int64_t n) : scratch_(kNarrow ? static_cast<size_t>(n) : 0) {}

  const Acc* Load(const T* from, int64_t n) {
    if constexpr (kNarrow) {
      inner::Get<T>().widen(scratch_.data(), from, n);
      return scratch_.data();
    } else {
      return from;
    }
  }
  // Returns where to compute the result for `to`, before Store.
  Acc* For(T* to) {
    if constexpr (kNarrow)
      return scratch_.data();
    else
      return to;
  }
  void Store(T* to, int64_t n) const {
    if constexpr (kNarrow) inner::Get<T>().narrow(to, scratch_.data(), n);
  }

 private:
  static constexpr bool kNarrow = !std::is_same_v<T, Acc>;
  std::vector<Acc> scratch_;
};

// out = a + b. out may be a or b.
template <typename T>
void Add(const T* a, const T* b, T* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = a[i] + b[i];
}

// Adds partial sums of n numbers, one per block of rows, in order.
template <typename T>
void SumBlocks(const std::vector<Accumulator<T>>& parts, int64_t n, T* to) {
  WideRow<T> row(n);
  Accumulator<T>* const sum = row.For(to);
  std::fill_n(sum, n, Accumulator<T>(0));
  for (size_t at = 0; at < parts.size(); at += n) {
    for (int64_t i = 0; i < n; ++i) sum[i] += parts[at + i];
  }
  row.Store(to, n);
}

}  // namespace

template <typename T>
void RmsNorm(const RmsNormArgs<T>& a, T* y, Accumulator<T>* inverse, const ParallelFor& parallel) {
  const inner::Kernels<T>& inner = inner::Get<T>();
  ForRowBlocks(parallel, a.rows, a.n, [&](int64_t first, int64_t last) {
    const int64_t added = a.plus != nullptr ? a.n : 0;
    WideRow<T> x_row(added), plus_row(added);
    for (int64_t r = first; r < last; ++r) {
      const T* from = a.x + r * a.n;
      if (a.plus != nullptr) {
        T* const sum = a.sum + r * a.n;
        Add(plus_row.Load(a.plus + r * a.n, a.n), x_row.Load(from, a.n), x_row.For(sum), a.n);
        x_row.Store(sum, a.n);
        from = sum;
      }
      const Accumulator<T> f = inner.rms_norm(y + r * a.n, from, a.weight, a.eps, a.n);
      if (inverse != nullptr) inverse[r] = f;
    }
  });
}

template <typename T>
void RmsNormBackward(const RmsNormArgs<T>& a, const T* grad, const T* by_sum, const Accumulator<T>* inverse, T* grad_x,
                     T* grad_weight, const ParallelFor& parallel) {
  using Acc = Accumulator<T>;
  const inner::Kernels<Acc>& inner = inner::Get<Acc>();
  const int64_t n = a.n;
  std::vector<Acc> parts(tiles::CeilDiv(a.rows, kRowsPerBlock) * n, Acc(0));
  WideRow<T> weights(n);
  const Acc* const weight = weights.Load(a.weight, n);
  ForRowBlocks(parallel, a.rows, 2 * n, [&](int64_t first, int64_t last) {
    Acc* part = parts.data() + first / kRowsPerBlock * n;
    WideRow<T> grad_row(n), x_row(n), result(n);
    for (int64_t r = first; r < last; ++r) {
      Acc* const by_x = result.For(grad_x + r * n);
      inner.rms_norm_backward(by_x, part, grad_row.Load(grad + r * n, n), x_row.Load(a.x + r * n, n), weight,
                              inverse[r], n);
      if (by_sum != nullptr) Add(x_row.Load(by_sum + r * n, n), by_x, by_x, n);
      result.Store(grad_x + r * n, n);
    }
  });
  SumBlocks<T>(parts, n, grad_weight);
}

template <typename T>
void NormRotate(const RotateArgs<T>& a, T* y, Accumulator<T>* inverse, const ParallelFor& parallel) {
  const inner::Kernels<T>& inner = inner::Get<T>();
  const int64_t width = a.heads * a.head_dim, half = a.head_dim / 2;
  const int64_t stride = a.x_row_stride == 0 ? width : a.x_row_stride;
  ForRowBlocks(parallel, a.rows, 2 * width, [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) {
      const T *cos = a.cos + a.positions[r] * half, *sin = a.sin + a.positions[r] * half;
      for (int64_t h = 0; h < a.heads; ++h) {
        const T* from = a.x + r * stride + h * a.head_dim;
        T* to = y + r * width + h * a.head_dim;
        if (a.weight != nullptr) {
          const Accumulator<T> f = inner.rms_norm(to, from, a.weight, a.eps, a.head_dim);
          if (inverse != nullptr) inverse[r * a.heads + h] = f;
          from = to;
        }
        inner.rotate(to, from, cos, sin, Accumulator<T>(1), half);
      }
    }
  });
}

template <typename T>
void NormRotateBackward(const RotateArgs<T>& a, const T* grad, const Accumulator<T>* inverse, T* grad_x, T* grad_weight,
                        const ParallelFor& parallel) {
  using Acc = Accumulator<T>;
  const inner::Kernels<Acc>& inner = inner::Get<Acc>();
  const int64_t depth = a.head_dim, half = depth / 2, width = a.heads * depth;
  const int64_t stride = a.x_row_stride == 0 ? width : a.x_row_stride;
  const bool norm = a.weight != nullptr;
  std::vector<Acc> parts(norm ? tiles::CeilDiv(a.rows, kRowsPerBlock) * depth : 0, Acc(0));
  WideRow<T> weights(depth);
  const Acc* const weight = norm ? weights.Load(a.weight, depth) : nullptr;
  ForRowBlocks(parallel, a.rows, 4 * width, [&](int64_t first, int64_t last) {
    std::vector<Acc> turned(depth);
    WideRow<T> cos_row(half), sin_row(half), grad_row(depth), x_row(depth), result(depth);
    for (int64_t r = first; r < last; ++r) {
      const Acc* const cos = cos_row.Load(a.cos + a.positions[r] * half, half);
      const Acc* const sin = sin_row.Load(a.sin + a.positions[r] * half, half);
      for (int64_t h = 0; h < a.heads; ++h) {
        const int64_t at = r * width + h * depth;
        const Acc* const by_result = grad_row.Load(grad + at, depth);
        Acc* const to = result.For(grad_x + at);
        inner.rotate(norm ? turned.data() : to, by_result, cos, sin, Acc(-1), half);
        if (norm) {
          inner.rms_norm_backward(to, parts.data() + first / kRowsPerBlock * depth, turned.data(),
                                  x_row.Load(a.x + r * stride + h * depth, depth), weight, inverse[r * a.heads + h],
                                  depth);
        }
        result.Store(grad_x + at, depth);
      }
    }
  });
  if (norm) SumBlocks<T>(parts, depth, grad_weight);
}

template <typename T>
void SwiGlu(const T* gate, const T* up, int64_t count, T* y, const ParallelFor& parallel) {
  constexpr int64_t kChunk = 256;
  const inner::Kernels<T>& inner = inner::Get<T>();
  ForRowBlocks(parallel, tiles::CeilDiv(count, kChunk), 8 * kChunk, [&](int64_t first, int64_t last) {
    const int64_t at = first * kChunk;
    inner.swiglu(y + at, gate + at, up + at, std::min(count, last * kChunk) - at);
  });
}

template <typename T>
void SwiGluBackward(const T* grad, const T* gate, const T* up, int64_t count, T* grad_gate, T* grad_up,
                    const ParallelFor& parallel) {
  constexpr int64_t kChunk = 256;
  const inner::Kernels<Accumulator<T>>& inner = inner::Get<Accumulator<T>>();
  ForRowBlocks(parallel, tiles::CeilDiv(count, kChunk), 12 * kChunk, [&](int64_t first, int64_t last) {
    WideRow<T> grad_row(kChunk), gate_row(kChunk), up_row(kChunk), by_gate(kChunk), by_up(kChunk);
    for (int64_t at = first * kChunk; at < std::min(count, last * kChunk); at += kChunk) {
      const int64_t n = std::min(kChunk, count - at);
      inner.swiglu_backward(by_gate.For(grad_gate + at), by_up.For(grad_up + at), grad_row.Load(grad + at, n),
                            gate_row.Load(gate + at, n), up_row.Load(up + at, n), n);
      by_gate.Store(grad_gate + at, n);
      by_up.Store(grad_up + at, n);
    }
  });
}

#define INGOT_INSTANTIATE(T)                                                                                 \
  template void RmsNorm<T>(const RmsNormArgs<T>&, T*, Accumulator<T>*, const ParallelFor&);                  \
  template void RmsNormBackward<T>(const RmsNormArgs<T>&, const T*, const T*, const Accumulator<T>*, T*, T*, \
                                   const ParallelFor&);                                                      \
  template void NormRotate<T>(const RotateArgs<T>&, T*, Accumulator<T>*, const ParallelFor&);                \
  template void NormRotateBackward<T>(const RotateArgs<T>&, const T*, const Accumulator<T>*, T*, T*,         \
                                      const ParallelFor&);                                                   \
  template void SwiGlu<T>(const T*, const T*, int64_t, T*, const ParallelFor&);                              \
  template void SwiGluBackward<T>(const T*, const T*, const T*, int64_t, T*, T*, const ParallelFor&);
INGOT_INSTANTIATE(BFloat16)
INGOT_INSTANTIATE(float)
INGOT_INSTANTIATE(double)

}  // namespace ingot::kernels
