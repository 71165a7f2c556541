#include "kernels/product.h"

#include <algorithm>
#include <thread>

#include "kernels/attention_tiles.h"
#include "kernels/inner.h"
#include "kernels/inner_product.h"
#include "kernels/scratch.h"

namespace ingot::kernels {
namespace {

using inner::kPanel;
using tiles::CeilDiv;

// Of b: columns and depth that lie packed in the second-level cache, 1 MiB, and the depth of which a panel of a does in
// the first-level one while b streams past it. Of a as many rows as there are, for each block packs b once more; but
// where the depth is cut, the sums of all its rows wait in memory.
constexpr int64_t kCols = 512, kDepth = 1024, kPassDepth = 512, kRows = 4096, kRowsOfCutDepth = 1024;
// Of a product, per core of the machine: large blocks pack less, small ones leave more to share out. No result depends
// on it.
constexpr int64_t kItemsPerCore = 4;

struct Block {
  int64_t rows, cols;
};

Block ChooseBlock(const ProductArgs& p) {
  static const int64_t enough = kItemsPerCore * std::max(1u, std::thread::hardware_concurrency());
  Block block{std::min(p.m, p.depth > kDepth ? kRowsOfCutDepth : kRows), std::min(p.n, kCols)};
  const auto items = [&] { return CeilDiv(p.m, block.rows) * CeilDiv(p.n, block.cols); };
  while (items() < enough && std::max(block.rows, block.cols) > 4 * kPanel) {
    int64_t& longer = block.rows >= block.cols ? block.rows : block.cols;
    longer = CeilDiv(longer / 2, kPanel) * kPanel;
  }
  return {CeilDiv(block.rows, kPanel) * kPanel, CeilDiv(block.cols, kPanel) * kPanel};
}

int64_t Padded(int64_t depth) { return CeilDiv(depth, inner::kStepNumbers) * inner::kStepNumbers; }

const BFloat16* At(const ProductSide& side, int64_t outer, int64_t depth) {
  return side.data + (side.across ? depth * side.stride + outer : outer * side.stride + depth);
}

class Worker {
 public:
  Worker(const ProductArgs& args, Block block)
      : p_(args),
        block_(block),
        tiles_(*inner::Tiles()),
        group_(args.a.across ? 4 * kPanel : kPanel),
        depth_(std::min(Padded(args.depth), kDepth)),
        a_(group_ * depth_),
        b_(block.cols * depth_),
        c_((args.depth > kDepth ? block.rows : kPanel) * block.cols) {}

  void Run(int64_t first_row, int64_t first_col) {
    const int64_t rows = std::min(block_.rows, p_.m - first_row), cols = std::min(block_.cols, p_.n - first_col);
    for (int64_t depth = 0; depth < p_.depth; depth += kDepth) {
      const int64_t n = std::min(kDepth, p_.depth - depth);
      const bool last = depth + n == p_.depth;
      for (int64_t k = 0; k < n; k += kPassDepth) {
        tiles_.pack_b(At(p_.b, first_col, depth + k), p_.b.stride, p_.b.across, cols, std::min(kPassDepth, n - k),
                      b_.get() + k * block_.cols);
      }
      for (int64_t r = 0; r < rows; r += group_) {
        const int64_t group = std::min(group_, rows - r);
        for (int64_t k = 0; k < n; k += kPassDepth) {
          tiles_.pack_a(At(p_.a, first_row + r, depth + k), p_.a.stride, p_.a.across, group,
                        std::min(kPassDepth, n - k), a_.get() + k * group_);
        }
        inner::Ahead ahead = Next(first_row + r + group, first_row + rows, depth, n);
        for (int64_t i = 0; i < group; i += kPanel) {
          float* const c = c_.get() + (p_.depth > kDepth ? (r + i) * block_.cols : 0);
          for (int64_t k = 0; k < n; k += kPassDepth) {
            const int64_t pass = Padded(std::min(kPassDepth, n - k));
            tiles_.multiply(a_.get() + k * group_ + i * pass, b_.get() + k * block_.cols, CeilDiv(cols, kPanel),
                            pass / inner::kStepNumbers, c, block_.cols, depth + k > 0, ahead);
          }
          if (last) Store(c, first_row + r + i, first_col, std::min(kPanel, group - i), cols);
        }
      }
    }
  }

 private:
  // Of a what will be packed after this: the rows from `row` on, `n` numbers from `depth` on. Across there are too many
  // places to be worth it.
  inner::Ahead Next(int64_t row, int64_t end, int64_t depth, int64_t n) const {
    constexpr int64_t kLineNumbers = 32;
    if (row >= end || p_.a.across) return {};
    return {.row = reinterpret_cast<const char*>(At(p_.a, row, depth)),
            .stride = p_.a.stride * static_cast<int64_t>(sizeof(BFloat16)),
            .lines = CeilDiv(n, kLineNumbers),
            .rows = std::min(group_, end - row)};
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
  const int64_t group_;  // rows of a that are packed at once, for what of them lies together
  const int64_t depth_;
  tiles::Scratch<BFloat16> a_, b_;
  tiles::Scratch<float> c_;
};

}  // namespace

bool HasTileProduct() { return inner::Tiles() != nullptr && &inner::Get<BFloat16>() == inner::Amx<BFloat16>(); }

void TileProduct(const ProductArgs& p, const ParallelFor& parallel) {
  if (p.m == 0 || p.n == 0) return;
  const Block block = ChooseBlock(p);
  const int64_t row_blocks = CeilDiv(p.m, block.rows), col_blocks = CeilDiv(p.n, block.cols);
  const double flops = 2.0 * static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.depth);
  tiles::ShareOut(parallel, row_blocks * col_blocks, flops, [&] {
    return [&, worker = Worker(p, block)](int64_t item) mutable {
      worker.Run(item % row_blocks * block.rows, item / row_blocks * block.cols);
    };
  });
}

}  // namespace ingot::kernels
