// The inner loops of products through tile registers (product.cc), compiled with their flags (product_amx.cc).
//
// A panel is up to 32 rows [outer] of one side over some depth, packed: per step of 32 numbers of the depth two tiles
// of 16 rows, 1 KiB each; what is not there is zero. A tile of a holds its rows one after the other, a tile of b pairs
// of numbers (k, k + 1) of its 16 rows side by side, as TDPBF16PS wants them.
#pragma once

#include <cstdint>

#include "kernels/bfloat16.h"
#include "kernels/parallel_for.h"
#include "kernels/product.h"

namespace ingot::kernels::inner {

inline constexpr int64_t kPanel = 32, kStepNumbers = 32;

// Lines of memory that will be packed next: asked for while others are multiplied.
struct Ahead {
  const char* row = nullptr;
  int64_t stride = 0;  // bytes from a row to the next
  int64_t lines = 0;   // of a row
  int64_t rows = 0;    // that are left
  int64_t line = 0;    // the next one of `row`
};

struct TileKernels {
  // All panels of `rows`, one after the other. Number k of row i lies at from[i * stride + k], across at from[k *
  // stride + i].
  void (*pack_a)(const BFloat16* from, int64_t stride, bool across, int64_t rows, int64_t depth, BFloat16* to);
  void (*pack_b)(const BFloat16* from, int64_t stride, bool across, int64_t rows, int64_t depth, BFloat16* to);
  // One panel of a against `panels` of b, one after the other: c [32, 32 panels] = (add ? c : 0) + a b. Asks for some
  // of `ahead` at each step.
  void (*multiply)(const BFloat16* a, const BFloat16* b, int64_t panels, int64_t steps, float* c, int64_t ldc, bool add,
                   Ahead& ahead);
  // to += x
  void (*add)(float* to, const float* x, int64_t n);
};

// Null where the compiler could not build it; not to be called where the machine cannot run it (HasTileProduct).
const TileKernels* Tiles();

// TileProduct (product.h) by a table of the caller's.
void TileProductBy(const TileKernels& tiles, const ProductArgs& args, const ParallelFor& parallel);

}  // namespace ingot::kernels::inner
