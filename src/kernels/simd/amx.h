// Wraps AMX tile registers. A tile has up to 16 rows of up to 64 bytes. Multiply uses C [m][n] in fp32, and A [m][k]
// and B [k][n] with bf16 pairs.
//
// One instruction sums the products of the k pairs' first elements and of their second elements in two chains of fused
// fp32 operations, each starting from zero. It adds the two sums and then adds the result to C. Denormals count as zero
// (Intel SDM, TDPBF16PS). So a sum depends only on how its index is split into steps of 16 words, and A and B are
// interchangeable.
//
// The rows and bytes of each tile are per-thread state. Other code that uses tiles (oneDNN) sets this state before it
// computes. Call Enter before the first function here and Leave after the last one, and do not use tiles in any other
// way in between. Call these functions only after the check in instruction_set.cc.
//
// Uses inline assembly instead of <immintrin.h>, whose macros accept a tile number only as a token. Also, GCC 12's
// macros do not declare that a load reads memory, so the compiler could move a preceding store after it.
#pragma once

#include <cstdint>

namespace ingot::kernels::INGOT_ISA {

inline constexpr int64_t kTileRows = 16;   // rows of A and C; for B, in words of the sum's index
inline constexpr int64_t kTileWords = 16;  // columns of each tile, in 4-byte words

struct alignas(64) TileConfig {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t bytes[16] = {};
  uint8_t rows[16] = {};
};
static_assert(sizeof(TileConfig) == 64);

// Tiles 0 to 3 are C, 4 and 5 are A, and 6 and 7 are B. All have 16 rows of 64 bytes, except C and A for a product's
// last rows.
constexpr TileConfig ConfigOf(int64_t rows) {
  TileConfig config;
  for (int t = 0; t < 8; ++t) {
    config.bytes[t] = 64;
    config.rows[t] = static_cast<uint8_t>(t < 6 ? rows : kTileRows);
  }
  return config;
}
struct TileConfigs {
  TileConfig of[kTileRows + 1];  // by number of rows
  constexpr TileConfigs() {
    for (int64_t r = 1; r <= kTileRows; ++r) of[r] = ConfigOf(r);
  }
};
inline constexpr TileConfigs kTileConfigs;

inline void Configure(int64_t rows) { asm volatile("ldtilecfg %0" ::"m"(kTileConfigs.of[rows])); }
inline void Enter() { Configure(kTileRows); }
inline void Leave() { asm volatile("tilerelease"); }

// A tile's rows are `stride` words (bf16: numbers) apart.
template <int kTile, typename T>
inline void LoadTile(const T* from, int64_t stride) {
  const int64_t bytes = stride * static_cast<int64_t>(sizeof(T));
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(bytes), "n"(kTile) : "memory");
}
// Loads a tile that will not be needed again soon, without evicting L1 cache contents.
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
