// The product of two bf16 matrices through the tile registers of AMX. It computes a linear layer forward, and its
// gradients. Raw pointers, no torch.
//
// Both sides are packed tile by tile into a block that stays in a core's second-level cache. An element of the result
// is one chain of operations over the depth in steps of 32 (amx.h), for any number of rows and columns. So a row
// depends only on itself. Blocks until done; thread safe.
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
  // Number k of row i lies at data[i * stride + k], or with `across` at data[k * stride + i].
  bool across = false;
};

// sum_k a[m, k] b[n, k]
struct ProductTerm {
  ProductSide a, b;
  int64_t depth = 0;
};

// c[m, n] = the sum of the terms, as if their depths followed each other, + bias[n].
struct ProductArgs {
  std::span<const ProductTerm> terms;
  int64_t m = 0, n = 0;
  const BFloat16* bias = nullptr;  // [n]; null = none
  // The dense result, in one of the two; the other is null.
  BFloat16* c = nullptr;  // rounded
  float* wide = nullptr;  // not rounded
  bool add = false;       // true = add to the contents of `wide`
};

// Whether this machine has tile registers, and the instruction set in force (attention.h) uses them.
bool HasTileProduct();
// REQUIRES: HasTileProduct(); at least one term, each with a depth > 0.
void TileProduct(const ProductArgs& args, const ParallelFor& parallel);

}  // namespace ingot::kernels
