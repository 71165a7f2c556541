// The inner loops of products through tile registers (product.cc), compiled with their flags (product_amx.cc).
//
// A panel is up to 32 rows [outer] of one side over some depth, packed. It has two tiles of 16 rows, 1 KiB each, per
// step of 32 numbers of the depth; missing rows and numbers are zero. A tile of a holds its rows one after the other. A
// tile of b holds pairs of numbers (k, k + 1) of its 16 rows side by side, as TDPBF16PS needs them.
#pragma once

#include <cstdint>

#include "kernels/bfloat16.h"
#include "kernels/parallel_for.h"
#include "kernels/products/product.h"

namespace ingot::kernels::inner {

inline constexpr int64_t kPanel = 32, kStepNumbers = 32;

// Lines of memory that will be packed next. They are prefetched while others are multiplied.
struct Ahead {
  const char* row = nullptr;
  int64_t stride = 0;  // bytes from a row to the next
  int64_t lines = 0;   // per row
  int64_t rows = 0;    // that remain
  int64_t line = 0;    // the next one of `row`
};

struct TileKernels {
  // Pack all panels of `rows`, one after the other. Number k of row i lies at from[i * stride + k], or with `across` at
  // from[k * stride + i].
  void (*pack_a)(const BFloat16* from, int64_t stride, bool across, int64_t rows, int64_t depth, BFloat16* to);
  void (*pack_b)(const BFloat16* from, int64_t stride, bool across, int64_t rows, int64_t depth, BFloat16* to);
  // One panel of a against `panels` panels of b that follow each other: c [32, 32 panels] = (add ? c : 0) + a b.
  // Prefetches some of `ahead` at each step.
  void (*multiply)(const BFloat16* a, const BFloat16* b, int64_t panels, int64_t steps, float* c, int64_t ldc, bool add,
                   Ahead& ahead);
  // to += x
  void (*add)(float* to, const float* x, int64_t n);
};

// Null = the compiler could not build it. Call it only where the machine can run it (HasTileProduct).
const TileKernels* Tiles();

// TileProduct (product.h) through the caller's table.
void TileProductBy(const TileKernels& tiles, const ProductArgs& args, const ParallelFor& parallel);

}  // namespace ingot::kernels::inner
