// Multiplies two bf16 matrices using AMX tile registers. Used for the forward pass and gradients of linear layers. Uses
// raw pointers, without torch.
//
// Both sides are packed tile by tile into a block that stays in a core's L2 cache. Each element of the result is
// computed by one chain of operations over the depth in steps of 32 (amx.h), no matter how many rows and columns there
// are. So a result row depends only on its own input row. Blocks until done. Thread safe.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/bfloat16.h"
#include "kernels/parallel_for.h"

namespace ingot::kernels {

// One side of a product: a matrix [outer, depth].
struct ProductSide {
  const BFloat16* data = nullptr;
  int64_t stride = 0;
  // Number k of row i is at data[i * stride + k] or, with `across`, at data[k * stride + i].
  bool across = false;
};

// sum_k a[m, k] b[n, k]
struct ProductTerm {
  ProductSide a, b;
  int64_t depth = 0;
};

// c[m, n] = sum of the terms, as if concatenated along the depth, + bias[n].
struct ProductArgs {
  std::span<const ProductTerm> terms;
  int64_t m = 0, n = 0;
  const BFloat16* bias = nullptr;  // [n]; null = none
  // The dense result is written to one of these. The other must be null.
  BFloat16* c = nullptr;  // rounded
  float* wide = nullptr;  // not rounded
  bool add = false;       // true = add to the contents of `wide`
};

// Returns whether this machine has tile registers and the instruction set in use (attention.h) uses them.
bool HasTileProduct();
// REQUIRES: HasTileProduct(), at least one term, and a depth > 0 for each term.
void TileProduct(const ProductArgs& args, const ParallelFor& parallel);

}  // namespace ingot::kernels
