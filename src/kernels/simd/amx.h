// The tile registers of AMX. A tile is up to 16 rows of up to 64 bytes. Multiply takes C [m][n] fp32, and A [m][k] and
// B [k][n] of bf16 pairs.
//
// One instruction sums the first numbers of the k pairs, and the second numbers, in two chains of fused fp32 operations
// from zero. It adds the two sums, and then the result to C. Denormals count as zero (Intel SDM, TDPBF16PS). So a sum
// depends only on the cuts of its index into steps of 16 words, and A and B may change places.
//
// The rows and bytes of each tile are a state of the thread. Every other user of tiles (oneDNN) sets it before it
// computes. Call Enter before the first function here and Leave after the last; use no tiles otherwise in between.
// Nothing here may be called before the check of instruction_set.cc.
//
// Inline assembly, not <immintrin.h>: its macros take a tile's number only as a token. GCC 12's also do not say that a
// load reads memory, so the compiler may move a store that must come before it after it.
#pragma once

#include <cstdint>

namespace ingot::kernels::INGOT_ISA {

inline constexpr int64_t kTileRows = 16;   // of A and C, and of B in words of the sum's index
inline constexpr int64_t kTileWords = 16;  // columns of each, in words of 4 bytes

struct alignas(64) TileConfig {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t bytes[16] = {};
  uint8_t rows[16] = {};
};
static_assert(sizeof(TileConfig) == 64);

// Tiles 0 to 3 are C, 4 and 5 A, 6 and 7 B. All have 16 rows of 64 bytes, except C and A of the last rows of a product.
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
// For a tile that is not needed again soon: keeps the contents of the first-level cache.
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
