// The product of two matrices of bf16 through the tile registers of AMX: what a linear layer is forward, and what its
// gradients are. Raw pointers, no torch.
//
// Both sides are put together tile by tile in a block that stays in a core's second-level cache. An element of the
// result is one chain of operations over the depth in steps of 32 (amx.h), however many rows and columns there are: so
// a row depends on itself alone. Blocks until done; thread safe.
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
  // Number k of row i lies at data[i * stride + k], across at data[k * stride + i].
  bool across = false;
};

// sum_k a[m, k] b[n, k]
struct ProductTerm {
  ProductSide a, b;
  int64_t depth = 0;
};

// c[m, n] = the sum of the terms, as if their depths followed each other, + bias[n]
struct ProductArgs {
  std::span<const ProductTerm> terms;
  int64_t m = 0, n = 0;
  const BFloat16* bias = nullptr;  // [n]; null: none
  // The result, dense, in one of them.
  BFloat16* c = nullptr;  // rounded
  float* wide = nullptr;  // not
  bool add = false;       // to what is in `wide`
};

// Whether this machine has them, and the instruction set in force (attention.h) uses them.
bool HasTileProduct();
// REQUIRES: HasTileProduct(); terms, each of a depth > 0.
void TileProduct(const ProductArgs& args, const ParallelFor& parallel);

}  // namespace ingot::kernels
