// dp4a and dp2a: short dot products of integers.
#include "standin/ptx/decoder.h"
#include "standin/ptx/lanes.h"

namespace ingot::standin::ptx {
namespace {

// A dot product of four bytes. The words name the types of a and b.
template <typename A, typename B>
struct Dot4 {
  uint32_t operator()(uint32_t a, uint32_t b, uint32_t c) const {
    for (int i = 0; i < 32; i += 8)
      c += static_cast<uint32_t>(int32_t{static_cast<A>(a >> i)} * static_cast<B>(b >> i));
    return c;
  }
};

bool DecodeDot4(Decoder& d, const Statement& s, Instruction& in) {
  const bool a = s.words.at(1) == "s32", b = s.words.at(2) == "s32";
  const Execute table[2][2] = {
      {Map3<Dot4<uint8_t, uint8_t>, uint32_t, uint32_t>, Map3<Dot4<uint8_t, int8_t>, uint32_t, uint32_t>},
      {Map3<Dot4<int8_t, uint8_t>, uint32_t, uint32_t>, Map3<Dot4<int8_t, int8_t>, uint32_t, uint32_t>}};
  in.execute = table[a][b];
  d.Fill(s, in, Type::kU32, 3);
  return true;
}

// A dot product of two halves of a and two bytes of b: the lower or the upper ones.
template <typename A, typename B, bool kHigh>
struct Dot2 {
  uint32_t operator()(uint32_t a, uint32_t b, uint32_t c) const {
    for (int i = 0; i < 2; ++i) {
      const auto byte = static_cast<B>(b >> (8 * i + (kHigh ? 16 : 0)));
      c += static_cast<uint32_t>(int32_t{static_cast<A>(a >> (16 * i))} * byte);
    }
    return c;
  }
};

template <typename A, typename B>
Execute ChooseDot2(bool high) {
  return high ? Map3<Dot2<A, B, true>, uint32_t, uint32_t> : Map3<Dot2<A, B, false>, uint32_t, uint32_t>;
}

// dp2a.{lo, hi}.atype.btype d, a, b, c
bool DecodeDot2(Decoder& d, const Statement& s, Instruction& in) {
  const bool high = s.Has("hi"), a = s.words.at(2) == "s32", b = s.words.at(3) == "s32";
  in.execute = a ? (b ? ChooseDot2<int16_t, int8_t>(high) : ChooseDot2<int16_t, uint8_t>(high))
                 : (b ? ChooseDot2<uint16_t, int8_t>(high) : ChooseDot2<uint16_t, uint8_t>(high));
  d.Fill(s, in, Type::kU32, 3);
  return true;
}

}  // namespace

std::span<const Rule> DotRules() {
  static constexpr Rule kRules[] = {{"dp4a", DecodeDot4}, {"dp2a", DecodeDot2}};
  return kRules;
}

}  // namespace ingot::standin::ptx
