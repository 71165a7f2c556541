#include "kernels/layers.h"

#include <algorithm>
#include <vector>

#include "kernels/attention_tiles.h"
#include "kernels/inner.h"

namespace ingot::kernels {
namespace {

constexpr int64_t kRowsPerBlock = 32;  // sums over rows are built per block, then added up in order

// body(first, last) over blocks of rows; `bytes_per_row` tells whether threads pay.
template <typename F>
void ForRowBlocks(const ParallelFor& parallel, int64_t rows, int64_t values_per_row, const F& body) {
  const int64_t blocks = tiles::CeilDiv(rows, kRowsPerBlock);
  const double flops = 4.0 * static_cast<double>(rows) * static_cast<double>(values_per_row);
  tiles::ShareOut(parallel, blocks, flops, [&] {
    return [&](int64_t block) { body(block * kRowsPerBlock, std::min(rows, (block + 1) * kRowsPerBlock)); };
  });
}

template <typename T>
void SumBlocks(const std::vector<T>& parts, int64_t n, T* sum) {
  std::fill_n(sum, n, T(0));
  for (size_t at = 0; at < parts.size(); at += n) {
    for (int64_t i = 0; i < n; ++i) sum[i] += parts[at + i];
  }
}

}  // namespace

template <typename T>
void RmsNorm(const T* x, const T* weight, Accumulator<T> eps, int64_t rows, int64_t n, T* y, Accumulator<T>* inverse,
             const ParallelFor& parallel) {
  const inner::Kernels<T>& inner = inner::Get<T>();
  ForRowBlocks(parallel, rows, n, [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) {
      const Accumulator<T> f = inner.rms_norm(y + r * n, x + r * n, weight, eps, n);
      if (inverse != nullptr) inverse[r] = f;
    }
  });
}

template <typename T>
void RmsNormBackward(const T* grad, const T* x, const T* weight, const T* inverse, int64_t rows, int64_t n, T* grad_x,
                     T* grad_weight, const ParallelFor& parallel) {
  const inner::Kernels<T>& inner = inner::Get<T>();
  std::vector<T> parts(tiles::CeilDiv(rows, kRowsPerBlock) * n, T(0));
  ForRowBlocks(parallel, rows, 2 * n, [&](int64_t first, int64_t last) {
    T* part = parts.data() + first / kRowsPerBlock * n;
    for (int64_t r = first; r < last; ++r) {
      inner.rms_norm_backward(grad_x + r * n, part, grad + r * n, x + r * n, weight, inverse[r], n);
    }
  });
  SumBlocks(parts, n, grad_weight);
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
void NormRotateBackward(const RotateArgs<T>& a, const T* grad, const T* inverse, T* grad_x, T* grad_weight,
                        const ParallelFor& parallel) {
  const inner::Kernels<T>& inner = inner::Get<T>();
  const int64_t width = a.heads * a.head_dim, half = a.head_dim / 2;
  const int64_t stride = a.x_row_stride == 0 ? width : a.x_row_stride;
  std::vector<T> parts(a.weight == nullptr ? 0 : tiles::CeilDiv(a.rows, kRowsPerBlock) * a.head_dim, T(0));
  ForRowBlocks(parallel, a.rows, 4 * width, [&](int64_t first, int64_t last) {
    std::vector<T> turned(a.head_dim);
    for (int64_t r = first; r < last; ++r) {
      const T *cos = a.cos + a.positions[r] * half, *sin = a.sin + a.positions[r] * half;
      for (int64_t h = 0; h < a.heads; ++h) {
        const int64_t at = r * width + h * a.head_dim;
        if (a.weight == nullptr) {
          inner.rotate(grad_x + at, grad + at, cos, sin, T(-1), half);
          continue;
        }
        inner.rotate(turned.data(), grad + at, cos, sin, T(-1), half);
        inner.rms_norm_backward(grad_x + at, parts.data() + first / kRowsPerBlock * a.head_dim, turned.data(),
                                a.x + r * stride + h * a.head_dim, a.weight, inverse[r * a.heads + h], a.head_dim);
      }
    }
  });
  if (a.weight != nullptr) SumBlocks(parts, a.head_dim, grad_weight);
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
  const inner::Kernels<T>& inner = inner::Get<T>();
  ForRowBlocks(parallel, tiles::CeilDiv(count, kChunk), 12 * kChunk, [&](int64_t first, int64_t last) {
    const int64_t at = first * kChunk, n = std::min(count, last * kChunk) - at;
    inner.swiglu_backward(grad_gate + at, grad_up + at, grad + at, gate + at, up + at, n);
  });
}

#define INGOT_INSTANTIATE(T)                                                                                 \
  template void RmsNorm<T>(const T*, const T*, T, int64_t, int64_t, T*, T*, const ParallelFor&);             \
  template void RmsNormBackward<T>(const T*, const T*, const T*, const T*, int64_t, int64_t, T*, T*,         \
                                   const ParallelFor&);                                                      \
  template void NormRotate<T>(const RotateArgs<T>&, T*, T*, const ParallelFor&);                             \
  template void NormRotateBackward<T>(const RotateArgs<T>&, const T*, const T*, T*, T*, const ParallelFor&); \
  template void SwiGlu<T>(const T*, const T*, int64_t, T*, const ParallelFor&);                              \
  template void SwiGluBackward<T>(const T*, const T*, const T*, int64_t, T*, T*, const ParallelFor&);
INGOT_INSTANTIATE(float)
INGOT_INSTANTIATE(double)
template void RmsNorm<BFloat16>(const BFloat16*, const BFloat16*, float, int64_t, int64_t, BFloat16*, float*,
                                const ParallelFor&);
template void NormRotate<BFloat16>(const RotateArgs<BFloat16>&, BFloat16*, float*, const ParallelFor&);
template void SwiGlu<BFloat16>(const BFloat16*, const BFloat16*, int64_t, BFloat16*, const ParallelFor&);

}  // namespace ingot::kernels
