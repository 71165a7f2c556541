// The inner loops for products that use tile registers (product.cc), compiled with special flags (product_amx.cc).
//
// A panel is a packed group of up to 32 rows [outer] from one side, over some depth. For each 32 numbers of depth, it
// has two tiles of 16 rows, 1 KiB each. Missing rows and numbers are zero. A tile of a contains its rows one after
// another. A tile of b contains the pairs (k, k + 1) of its 16 rows side by side, as TDPBF16PS requires.
#pragma once

#include <cstdint>

#include "kernels/bfloat16.h"
#include "kernels/parallel_for.h"
#include "kernels/products/product.h"

namespace ingot::kernels::inner {

inline constexpr int64_t kPanel = 32, kStepNumbers = 32;

// Cache lines that will be packed next. They are prefetched during multiplication.
struct Ahead {
  const char* row = nullptr;
  int64_t stride = 0;  // bytes between rows
  int64_t lines = 0;   // lines per row
  int64_t rows = 0;    // remaining rows
  int64_t line = 0;    // next line of `row`
};

struct TileKernels {
  // Packs all panels of `rows` rows, one after another. Number k of row i is at from[i * stride + k] or, with `across`,
  // at from[k * stride + i].
  void (*pack_a)(const BFloat16* from, int64_t stride, bool across, int64_t rows, int64_t depth, BFloat16* to);
  void (*pack_b)(const BFloat16* from, int64_t stride, bool across, int64_t rows, int64_t depth, BFloat16* to);
  // Multiplies one panel of a by `panels` consecutive panels of b: c [32, 32 panels] = (add ? c : 0) + a b. Prefetches
  // some of `ahead` in each step.
  void (*multiply)(const BFloat16* a, const BFloat16* b, int64_t panels, int64_t steps, float* c, int64_t ldc, bool add,
                   Ahead& ahead);
  // to += x
  void (*add)(float* to, const float* x, int64_t n);
};

// Returns null if the compiler could not build the table. Use it only if the machine supports it
// (HasTileProduct).
const TileKernels* Tiles();

// Same as TileProduct (product.h), but uses the given table.
void TileProductBy(const TileKernels& tiles, const ProductArgs& args, const ParallelFor& parallel);

}  // namespace ingot::kernels::inner
