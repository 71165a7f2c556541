#include "kernels/products/product.h"

#include <algorithm>
#include <thread>

#include "kernels/products/inner_product.h"
#include "kernels/scratch.h"
#include "kernels/share_out.h"
#include "kernels/simd/inner.h"

namespace ingot::kernels {
namespace {

using inner::kPanel;
using tiles::CeilDiv;

// kCols, kDepth    Columns and depth of b that are packed in the L2 cache (1 MiB).
// kPassDepth       The depth of a panel of a that stays in the L1 cache while b streams past it.
// kRows            Rows of a per block. Each block packs b once more.
// kRowsOfCutDepth  Rows of a per block if the depth is cut, because the sums of all rows then wait in memory.
constexpr int64_t kCols = 512, kDepth = 1024, kPassDepth = 512, kRows = 4096, kRowsOfCutDepth = 1024;
// Items per product for each core. Larger blocks pack less. Smaller ones leave more items for the threads. The number
// does not change results.
constexpr int64_t kItemsPerCore = 4;

struct Block {
  int64_t rows, cols;
};

bool Cut(const ProductArgs& p) { return p.terms.size() > 1 || p.terms[0].depth > kDepth; }

Block ChooseBlock(const ProductArgs& p) {
  static const int64_t enough = kItemsPerCore * std::max(1u, std::thread::hardware_concurrency());
  Block block{std::min(p.m, Cut(p) ? kRowsOfCutDepth : kRows), std::min(p.n, kCols)};
  const auto items = [&] { return CeilDiv(p.m, block.rows) * CeilDiv(p.n, block.cols); };
  while (items() < enough && std::max(block.rows, block.cols) > 4 * kPanel) {
    int64_t& longer = block.rows >= block.cols ? block.rows : block.cols;
    longer = CeilDiv(longer / 2, kPanel) * kPanel;
  }
  return {CeilDiv(block.rows, kPanel) * kPanel, CeilDiv(block.cols, kPanel) * kPanel};
}

int64_t Padded(int64_t depth) { return CeilDiv(depth, inner::kStepNumbers) * inner::kStepNumbers; }

// Returns the part of the side that starts at row `outer` and depth `depth`.
ProductSide Rows(const ProductSide& side, int64_t outer, int64_t depth) {
  return {side.data + (side.across ? depth * side.stride + outer : outer * side.stride + depth), side.stride,
          side.across};
}

class Worker {
 public:
  Worker(const inner::TileKernels& tiles, const ProductArgs& args, Block block)
      : p_(args),
        block_(block),
        tiles_(tiles),
        cut_(Cut(args)),
        a_(GroupOf(/*across=*/true) * LongestDepth(args)),
        b_(block.cols * LongestDepth(args)),
        c_((cut_ ? block.rows : kPanel) * block.cols) {}

  void Run(int64_t first_row, int64_t first_col) {
    const int64_t rows = std::min(block_.rows, p_.m - first_row), cols = std::min(block_.cols, p_.n - first_col);
    for (const ProductTerm& term : p_.terms) {
      for (int64_t depth = 0; depth < term.depth; depth += kDepth) {
        const int64_t n = std::min(kDepth, term.depth - depth);
        const Place place{first_row, first_col, rows, cols};
        Multiply({Rows(term.a, first_row, depth), Rows(term.b, first_col, depth), n}, place,
                 /*add=*/&term != &p_.terms.front() || depth > 0,
                 /*last=*/&term == &p_.terms.back() && depth + n == term.depth);
      }
    }
  }

 private:
  struct Place {
    int64_t row, col, rows, cols;
  };

  // Returns the number of rows of a that are packed together because their numbers are adjacent.
  static int64_t GroupOf(bool across) { return across ? 4 * kPanel : kPanel; }

  static int64_t LongestDepth(const ProductArgs& p) {
    int64_t longest = 0;
    for (const ProductTerm& term : p.terms) longest = std::max(longest, std::min(Padded(term.depth), kDepth));
    return longest;
  }

  // Makes one pass over the block's rows. Multiplies a term's packed numbers, adds the sums so far, and stores the
  // result after the last term.
  void Multiply(const ProductTerm& part, const Place& place, bool add, bool last) {
    const int64_t n = part.depth, group_rows = GroupOf(part.a.across);
    for (int64_t k = 0; k < n; k += kPassDepth) {
      tiles_.pack_b(Rows(part.b, 0, k).data, part.b.stride, part.b.across, place.cols, std::min(kPassDepth, n - k),
                    b_.get() + k * block_.cols);
    }
    for (int64_t r = 0; r < place.rows; r += group_rows) {
      const int64_t group = std::min(group_rows, place.rows - r);
      for (int64_t k = 0; k < n; k += kPassDepth) {
        tiles_.pack_a(Rows(part.a, r, k).data, part.a.stride, part.a.across, group, std::min(kPassDepth, n - k),
                      a_.get() + k * group_rows);
      }
      inner::Ahead ahead = Next(part, r + group, place.rows);
      for (int64_t i = 0; i < group; i += kPanel) {
        float* const c = c_.get() + (cut_ ? (r + i) * block_.cols : 0);
        for (int64_t k = 0; k < n; k += kPassDepth) {
          const int64_t pass = Padded(std::min(kPassDepth, n - k));
          tiles_.multiply(a_.get() + k * group_rows + i * pass, b_.get() + k * block_.cols, CeilDiv(place.cols, kPanel),
                          pass / inner::kStepNumbers, c, block_.cols, add || k > 0, ahead);
        }
        if (last) Store(c, place.row + r + i, place.col, std::min(kPanel, group - i), place.cols);
      }
    }
  }

  // Returns the part of a that will be packed next. With `across`, prefetching is not worthwhile, because there are too
  // many locations.
  static inner::Ahead Next(const ProductTerm& part, int64_t row, int64_t end) {
    constexpr int64_t kLineNumbers = 32;
    if (row >= end || part.a.across) return {};
    return {.row = reinterpret_cast<const char*>(Rows(part.a, row, 0).data),
            .stride = part.a.stride * static_cast<int64_t>(sizeof(BFloat16)),
            .lines = CeilDiv(part.depth, kLineNumbers),
            .rows = std::min(kPanel, end - row)};
  }

  void Store(float* c, int64_t first_row, int64_t first_col, int64_t rows, int64_t cols) const {
    for (int64_t r = 0; r < rows; ++r, c += block_.cols) {
      if (p_.bias != nullptr) {
        for (int64_t j = 0; j < cols; ++j) c[j] += ToFloat(p_.bias[first_col + j]);
      }
      const int64_t at = (first_row + r) * p_.n + first_col;
      if (p_.c != nullptr) {
        inner::Get<BFloat16>().narrow(p_.c + at, c, cols);
      } else if (p_.add) {
        tiles_.add(p_.wide + at, c, cols);
      } else {
        std::copy_n(c, cols, p_.wide + at);
      }
    }
  }

  const ProductArgs& p_;
  const Block block_;
  const inner::TileKernels& tiles_;
  const bool cut_;  // the sums of all of a block's rows wait in c_
  tiles::Scratch<BFloat16> a_, b_;
  tiles::Scratch<float> c_;
};

}  // namespace

bool HasTileProduct() { return inner::Tiles() != nullptr && &inner::Get<BFloat16>() == inner::Amx<BFloat16>(); }

void TileProduct(const ProductArgs& args, const ParallelFor& parallel) {
  inner::TileProductBy(*inner::Tiles(), args, parallel);
}

void inner::TileProductBy(const TileKernels& tiles, const ProductArgs& p, const ParallelFor& parallel) {
  if (p.m == 0 || p.n == 0) return;
  const Block block = ChooseBlock(p);
  const int64_t row_blocks = CeilDiv(p.m, block.rows), col_blocks = CeilDiv(p.n, block.cols);
  double flops = 0;
  for (const ProductTerm& term : p.terms) {
    flops += 2.0 * static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(term.depth);
  }
  kernels::tiles::ShareOut(parallel, row_blocks * col_blocks, flops, [&] {
    return [&, worker = Worker(tiles, p, block)](int64_t item) mutable {
      worker.Run(item % row_blocks * block.rows, item / row_blocks * block.cols);
    };
  });
}

}  // namespace ingot::kernels
