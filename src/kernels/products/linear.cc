#include <algorithm>
#include <type_traits>
#include <vector>

#include "kernels/layers.h"
#include "kernels/products/product.h"
#include "kernels/scratch.h"
#include "kernels/share_out.h"
#include "kernels/simd/inner.h"

namespace ingot::kernels {
namespace {

using tiles::CeilDiv;

constexpr int64_t kMinCols = 64;  // per item
static_assert(kMinCols % inner::kAlignCols == 0);
// A sum over `in` is cut at fixed places, so the panel of weights stays in the L2 cache. The cuts affect the numerics,
// so they are the same for every number of rows.
template <typename T>
constexpr int64_t kDepth = std::is_same_v<T, BFloat16> ? 1024 : 512;

// The block of the result that an item computes. Larger blocks read less. Smaller ones leave more items for the
// threads. The size does not change results.
struct Block {
  int64_t rows, cols;
};

template <typename T>
Block ChooseBlock(const LinearArgs<T>& a) {
  constexpr int64_t kEnoughItems = 32;
  Block block{std::min(inner::Get<T>().rows, a.rows), inner::Get<T>().cols};
  while (CeilDiv(a.rows, block.rows) * CeilDiv(a.out, block.cols) < kEnoughItems && block.cols > kMinCols) {
    block.cols /= 2;
  }
  return block;
}

template <typename T>
class LinearWorker {
 public:
  LinearWorker(const LinearArgs<T>& args, Block block)
      : a_(args), block_(block), inner_(inner::Get<T>()), y_(block.rows * block.cols), panel_(block.cols) {}

  void Run(int64_t first_row, int64_t first_col) {
    const int64_t rows = std::min(block_.rows, a_.rows - first_row), cols = std::min(block_.cols, a_.out - first_col);
    for (int64_t depth = 0; depth < a_.in; depth += kDepth<T>) {
      for (int64_t j = 0; j < cols; ++j) panel_[j] = a_.weight + (first_col + j) * a_.in + depth;
      inner_.dot(a_.x + first_row * a_.x_row_stride + depth, a_.x_row_stride, rows, panel_.data(), cols,
                 std::min(kDepth<T>, a_.in - depth), y_.get(), block_.cols, depth > 0);
    }
    for (int64_t r = 0; r < rows; ++r) {
      Acc* from = y_.get() + r * block_.cols;
      if (a_.bias != nullptr) {
        for (int64_t j = 0; j < cols; ++j) from[j] += Widen(a_.bias[first_col + j]);
      }
      Store((first_row + r) * a_.out + first_col, from, cols);
    }
  }

 private:
  using Acc = Accumulator<T>;

  static Acc Widen(T x) {
    if constexpr (std::is_same_v<T, BFloat16>) {
      return ToFloat(x);
    } else {
      return x;
    }
  }

  void Store(int64_t at, const Acc* from, int64_t cols) {
    if constexpr (std::is_same_v<T, BFloat16>) {
      if (a_.wide == nullptr) return inner_.narrow(a_.y + at, from, cols);
      std::copy_n(from, cols, a_.wide + at);
    } else {
      std::copy_n(from, cols, a_.y + at);
    }
  }

  const LinearArgs<T>& a_;
  const Block block_;
  const inner::Kernels<T>& inner_;
  tiles::Scratch<Acc> y_;
  std::vector<const T*> panel_;
};

}  // namespace

template <typename T>
void Linear(const LinearArgs<T>& args, const ParallelFor& parallel) {
  LinearArgs<T> a = args;
  if (a.x_row_stride == 0) a.x_row_stride = a.in;
  if (a.rows == 0 || a.out == 0) return;
  if constexpr (std::is_same_v<T, BFloat16>) {
    // Gives the same results (amx.h). For few rows, packing the weights is not worthwhile.
    constexpr int64_t kFewRows = 16;
    if (a.rows > kFewRows && a.in > 0 && HasTileProduct()) {
      const ProductTerm term = {.a = {a.x, a.x_row_stride}, .b = {a.weight, a.in}, .depth = a.in};
      return TileProduct({.terms = {&term, 1},
                          .m = a.rows,
                          .n = a.out,
                          .bias = a.bias,
                          .c = a.wide == nullptr ? a.y : nullptr,
                          .wide = a.wide},
                         parallel);
    }
  }
  const Block block = ChooseBlock(a);
  const int64_t row_blocks = CeilDiv(a.rows, block.rows), col_blocks = CeilDiv(a.out, block.cols);
  // With few rows, reading the weights dominates. Reading a byte takes as long as this many operations.
  constexpr double kFlopsPerByte = 2.5;
  const double weights = static_cast<double>(a.in) * static_cast<double>(a.out);
  const double work = weights * std::max(2.0 * static_cast<double>(a.rows), kFlopsPerByte * double{sizeof(T)});
  // Adjacent items share a weight panel.
  tiles::ShareOut(parallel, row_blocks * col_blocks, work, [&] {
    return [&, worker = LinearWorker<T>(a, block)](int64_t item) mutable {
      worker.Run(item % row_blocks * block.rows, item / row_blocks * block.cols);
    };
  });
}

template void Linear<BFloat16>(const LinearArgs<BFloat16>&, const ParallelFor&);
template void Linear<float>(const LinearArgs<float>&, const ParallelFor&);
template void Linear<double>(const LinearArgs<double>&, const ParallelFor&);

}  // namespace ingot::kernels
