// Arguments for the CUDA kernels of linear layers (product_mma.cuh, product_plain.cuh): plain values and device pointers.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/bfloat16.h"

namespace ingot::kernels::cuda {

inline constexpr int kProductThreads = 128;       // of ProductMmaKernel
inline constexpr int kPlainProductThreads = 256;  // of ProductKernel

// y = x weight^T + bias. All arrays are dense.
template <typename T>
struct ProductArgs {
  const T* x;            // [rows, in]
  const T* weight;       // [out, in]
  const T* bias;         // [out] or null
  T* y;                  // [rows, out]; null = `wide` receives the sums
  Accumulator<T>* wide;  // [rows, out], not rounded
  int64_t rows, in, out;

  // More layers of the same x, which the same launch computes. out 0 = none. Only with y.
  struct Layer {
    const T* weight;
    const T* bias;
    T* y;
    int64_t out;
  };
  Layer more[2] = {};

  // Returns the number of blocks for tiles of rows and columns.
  INGOT_HOST_DEVICE int64_t row_tiles(int tile) const { return (rows + tile - 1) / tile; }
  INGOT_HOST_DEVICE int64_t col_tiles(int tile) const { return (out + tile - 1) / tile; }

  // Returns the arguments of one layer alone.
  INGOT_HOST_DEVICE ProductArgs Alone(const Layer& layer) const {
    return {x, layer.weight, layer.bias, layer.y, nullptr, rows, in, layer.out};
  }
};

// Returns whether LaunchProduct<T> uses the tensor cores: bf16, and rows in pieces of 16 bytes. Depends on the weight
// alone, so a row is computed by the same instructions in every batch.
template <typename T>
constexpr bool UsesMmaProduct(int64_t in) {
  return std::is_same_v<T, BFloat16> && in % 8 == 0;
}

// A tile of the result, the rows of warps in it, and the stages of its ring.
struct ProductTile {
  int rows, cols, down, stages;
};
// All of them have the same bits. Tiles with few rows are for decode, whose time is that of reading the weights.
inline constexpr ProductTile kFewRows{16, 64, 1, 8}, kSomeRows{64, 64, 2, 4}, kManyRows{128, 128, 2, 4};

constexpr ProductTile TileOf(int64_t rows) {
  return rows <= kFewRows.rows ? kFewRows : rows <= kSomeRows.rows ? kSomeRows : kManyRows;
}

constexpr int kProductDepth = 32;  // columns of x and the weight in a stage
constexpr int SharedBytes(const ProductTile& t) { return t.stages * (t.rows + t.cols) * kProductDepth * 2; }

// Of ProductKernel.
inline constexpr int kPlainCols = 64, kPlainDepth = 16, kPlainFewRows = 16, kPlainManyRows = 64;

// The block's tile. Blocks that run at the same time read few different tiles: kRowGroup rows of tiles at a time.
struct TileIndexes {
  int64_t row, col;
};
INGOT_HOST_DEVICE inline TileIndexes TileOfBlock(int64_t block, int64_t row_tiles, int64_t col_tiles) {
  constexpr int64_t kRowGroup = 8;
  const int64_t group = block / (kRowGroup * col_tiles), in_group = block % (kRowGroup * col_tiles);
  const int64_t left = row_tiles - group * kRowGroup, size = left < kRowGroup ? left : kRowGroup;
  return {group * kRowGroup + in_group % size, in_group / size};
}

// Returns the arguments of the layer that a block computes, and makes `block` its number within the layer.
template <typename T>
INGOT_HOST_DEVICE ProductArgs<T> LayerOfBlock(const ProductArgs<T>& all, int rows, int cols, int64_t& block) {
  ProductArgs<T> a = all;
  const auto skip_to = [&](const typename ProductArgs<T>::Layer& layer) {
    const int64_t tiles = a.row_tiles(rows) * a.col_tiles(cols);
    if (layer.out == 0 || block < tiles) return false;
    block -= tiles;
    a = all.Alone(layer);
    return true;
  };
  if (skip_to(all.more[0])) skip_to(all.more[1]);
  return a;
}

}  // namespace ingot::kernels::cuda
