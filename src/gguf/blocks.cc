#include "gguf/blocks.h"

#include <array>
#include <bit>
#include <cstring>

namespace ingot::gguf {
namespace {

static_assert(std::endian::native == std::endian::little, "blocks are stored little-endian");

template <typename T>
T Load(const uint8_t* from) {
  T value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

// Converts IEEE binary16 to binary32 exactly. A NaN keeps its payload and becomes quiet, as in hardware.
float HalfAt(const uint8_t* from) {
  const uint32_t half = Load<uint16_t>(from);
  const uint32_t sign = (half & 0x8000u) << 16, exponent = (half >> 10) & 0x1f, mantissa = half & 0x3ff;
  if (exponent == 0x1f) {
    return std::bit_cast<float>(sign | 0x7f800000u | mantissa << 13 | (mantissa != 0 ? 0x400000u : 0));
  }
  if (exponent != 0) return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
  const float magnitude = static_cast<float>(mantissa) * 0x1p-24F;  // subnormal or zero
  return std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | sign);
}

void DecodeF32(const uint8_t* from, uint64_t blocks, float* to) { std::memcpy(to, from, blocks * sizeof(float)); }

void DecodeF16(const uint8_t* from, uint64_t blocks, float* to) {
  for (uint64_t i = 0; i < blocks; ++i) to[i] = HalfAt(from + 2 * i);
}

void DecodeBF16(const uint8_t* from, uint64_t blocks, float* to) {
  for (uint64_t i = 0; i < blocks; ++i) {
    to[i] = std::bit_cast<float>(uint32_t{Load<uint16_t>(from + 2 * i)} << 16);
  }
}

// ---- Blocks of 32 values: byte i of the low bits holds value i in its low half and value i + 16 in its high half.

constexpr int kSmall = 32;

// Q8_0: scale f16 | 32 x int8.
void DecodeQ8_0(const uint8_t* from, uint64_t blocks, float* to) {
  for (uint64_t b = 0; b < blocks; ++b, from += 34, to += kSmall) {
    const float scale = HalfAt(from);
    for (int i = 0; i < kSmall; ++i) to[i] = static_cast<float>(static_cast<int8_t>(from[2 + i])) * scale;
  }
}

// Q4_0: scale f16 | 16 x two values. Q4_1 also has a minimum, f16, after the scale. Q5_0 and Q5_1 then have 32 high
// bits.
template <bool kMin, bool kFifthBit>
void DecodeSmall(const uint8_t* from, uint64_t blocks, float* to) {
  constexpr int kBits = kMin ? 4 : 2, kLow = kBits + (kFifthBit ? 4 : 0), kBytes = kLow + 16;
  constexpr int kMiddle = kMin ? 0 : (kFifthBit ? 16 : 8);
  for (uint64_t b = 0; b < blocks; ++b, from += kBytes, to += kSmall) {
    const float scale = HalfAt(from);
    const uint32_t fifth = kFifthBit ? Load<uint32_t>(from + kBits) : 0;
    for (int i = 0; i < kSmall; ++i) {
      const int low = i < 16 ? from[kLow + i] & 0xf : from[kLow + i - 16] >> 4;
      const int value = (low | static_cast<int>((fifth >> i & 1) << 4)) - kMiddle;
      const float scaled = scale * static_cast<float>(value);
      to[i] = kMin ? scaled + HalfAt(from + 2) : scaled;
    }
  }
}

// ---- Blocks of 256 values, in 8 or 16 parts with their own scales, which are multiplied by the block's scale.

constexpr int kLarge = 256;

struct ScaleAndLeast {
  int scale, least;  // six bits each
};

// Returns part `part` of the 12 bytes that hold 8 scales and 8 minimums. The first four of each are in the low six bits
// of bytes 0-3 and 4-7. The others have four low bits in bytes 8-11 and two high bits above those of the first four.
ScaleAndLeast SixBits(const uint8_t* packed, int part) {
  if (part < 4) return {packed[part] & 0x3f, packed[part + 4] & 0x3f};
  const int high = part - 4;
  return {(packed[part + 4] & 0xf) | (packed[high] >> 2 & 0x30), packed[part + 4] >> 4 | (packed[part] >> 2 & 0x30)};
}

// Q4_K and Q5_K: scale f16 | scale of the minimums f16 | 12 bytes of scales | Q5_K: 32 bytes of fifth bits | 128 bytes.
// Bytes 32p..32p+31 of the last field hold part 2p in their low halves and part 2p + 1 in their high halves. Bit `part`
// of byte i of the fifth bits belongs to value i of the part.
template <bool kFifthBit>
void DecodeK(const uint8_t* from, uint64_t blocks, float* to) {
  constexpr int kHigh = 16, kLow = kHigh + (kFifthBit ? 32 : 0), kBytes = kLow + 128;
  for (uint64_t b = 0; b < blocks; ++b, from += kBytes, to += kLarge) {
    const float scale = HalfAt(from), least_scale = HalfAt(from + 2);
    for (int part = 0; part < 8; ++part) {
      const ScaleAndLeast own = SixBits(from + 4, part);
      const float d = scale * static_cast<float>(own.scale), m = least_scale * static_cast<float>(own.least);
      for (int i = 0; i < 32; ++i) {
        int value = from[kLow + part / 2 * 32 + i] >> (part % 2 * 4) & 0xf;
        if (kFifthBit) value |= (from[kHigh + i] >> part & 1) << 4;
        const float scaled = d * static_cast<float>(value);
        to[part * 32 + i] = scaled - m;
      }
    }
  }
}

// Q6_K: 128 bytes of low halves | 64 bytes of high bit pairs | 16 x int8 scales | scale f16. Each half of 128 values is
// in 64 low bytes (32 low halves twice, then 32 high halves twice) and 32 high bytes (pairs for the four runs of 32).
void DecodeQ6_K(const uint8_t* from, uint64_t blocks, float* to) {
  constexpr int kBytes = 210, kHigh = 128, kScales = 192, kScale = 208;
  for (uint64_t b = 0; b < blocks; ++b, from += kBytes, to += kLarge) {
    const float scale = HalfAt(from + kScale);
    for (int i = 0; i < kLarge; ++i) {
      const int half = i / 128, run = i % 128 / 32, at = i % 32;
      const int low = from[half * 64 + run % 2 * 32 + at] >> (run / 2 * 4) & 0xf;
      const int high = from[kHigh + half * 32 + at] >> (run * 2) & 3;
      const float own = scale * static_cast<float>(static_cast<int8_t>(from[kScales + i / 16]));
      to[i] = own * static_cast<float>((low | high << 4) - 32);
    }
  }
}

}  // namespace

const std::vector<BlockType>& BlockTypes() {
  static const auto* const types = new std::vector<BlockType>{
      {0, "F32", 1, 4, DecodeF32},
      {1, "F16", 1, 2, DecodeF16},
      {2, "Q4_0", kSmall, 18, DecodeSmall<false, false>},
      {3, "Q4_1", kSmall, 20, DecodeSmall<true, false>},
      {6, "Q5_0", kSmall, 22, DecodeSmall<false, true>},
      {7, "Q5_1", kSmall, 24, DecodeSmall<true, true>},
      {8, "Q8_0", kSmall, 34, DecodeQ8_0},
      {12, "Q4_K", kLarge, 144, DecodeK<false>},
      {13, "Q5_K", kLarge, 176, DecodeK<true>},
      {14, "Q6_K", kLarge, 210, DecodeQ6_K},
      {30, "BF16", 1, 2, DecodeBF16},
  };
  return *types;
}

const BlockType* FindBlockType(uint32_t id) {
  for (const BlockType& type : BlockTypes()) {
    if (type.id == id) return &type;
  }
  return nullptr;
}

const BlockType* FindBlockType(std::string_view name) {
  for (const BlockType& type : BlockTypes()) {
    if (type.name == name) return &type;
  }
  return nullptr;
}

}  // namespace ingot::gguf
