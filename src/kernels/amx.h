// The tile registers of AMX. A tile is up to 16 rows of up to 64 bytes; Multiply takes C [m][n] fp32, A [m][k] and
// B [k][n] of bf16 pairs. Within one instruction the first and the second numbers of the k pairs are summed in two
// chains of fused fp32 operations from zero, then the two sums to each other, then that to C; denormals count as zero
// (Intel SDM, TDPBF16PS). So a sum depends on where its index is cut into steps of 16 words, on nothing else: A and B
// may change places.
//
// Which rows and bytes a tile has is a state of the thread that every other user of the tiles (oneDNN) sets for itself
// before it computes: Enter before the first function here, Leave after the last, and in between nothing else that uses
// tiles. Nothing here may be called before the check of instruction_set.cc.
//
// By hand and not by <immintrin.h>: its macros take the number of a tile as a token alone, and GCC 12's do not say that
// a load reads memory, which may then be written behind it.
#pragma once

#include <cstdint>

#include "kernels/attention_inner.h"

namespace ingot::kernels::INGOT_ISA {

inline constexpr int64_t kTileRows = 16;   // of A and C, and of B in words of the sum's index
inline constexpr int64_t kTileWords = 16;  // columns of each, in words of 4 bytes

struct alignas(64) TileConfig {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t bytes[16] = {};
  uint8_t rows[16] = {};
};
static_assert(sizeof(TileConfig) == 64);

// Tiles 0 to 3 are C, 4 and 5 A, 6 and 7 B. All of 16 rows of 64 bytes, but for C and A of the last rows of a product.
constexpr TileConfig ConfigOf(int64_t rows) {
  TileConfig config;
  for (int t = 0; t < 8; ++t) {
    config.bytes[t] = 64;
    config.rows[t] = static_cast<uint8_t>(t < 6 ? rows : kTileRows);
  }
  return config;
}
struct TileConfigs {
  TileConfig of[kTileRows + 1];  // by rows
  constexpr TileConfigs() {
    for (int64_t r = 1; r <= kTileRows; ++r) of[r] = ConfigOf(r);
  }
};
inline constexpr TileConfigs kTileConfigs;

inline void Configure(int64_t rows) { asm volatile("ldtilecfg %0" ::"m"(kTileConfigs.of[rows])); }
inline void Enter() { Configure(kTileRows); }
inline void Leave() { asm volatile("tilerelease"); }

// Rows of a tile lie `stride` words (numbers of bf16) apart.
template <int kTile, typename T>
inline void LoadTile(const T* from, int64_t stride) {
  const int64_t bytes = stride * static_cast<int64_t>(sizeof(T));
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(bytes), "n"(kTile) : "memory");
}
// One that is not wanted again soon: leaves what is in the first-level cache there.
template <int kTile, typename T>
inline void StreamTile(const T* from, int64_t stride) {
  const int64_t bytes = stride * static_cast<int64_t>(sizeof(T));
  asm volatile("tileloaddt1 (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(bytes), "n"(kTile) : "memory");
}
template <int kTile>
inline void StoreTile(float* to, int64_t stride) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(to), "r"(stride * 4), "n"(kTile) : "memory");
}
template <int kTile>
inline void ZeroTile() {
  asm volatile("tilezero %%tmm%c0" ::"n"(kTile));
}
template <int kC, int kA, int kB>
inline void Multiply() {
  asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"n"(kC), "n"(kA), "n"(kB));
}

}  // namespace ingot::kernels::INGOT_ISA
