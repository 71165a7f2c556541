// Bits picked from several operands: bfi, lop3, prmt, shf, bmsk, szext.
#include <algorithm>

#include "standin/ptx/decoder.h"
#include "standin/ptx/lanes.h"

namespace ingot::standin::ptx {
namespace {

struct FunnelLeft {
  uint32_t operator()(uint32_t a, uint32_t b, uint32_t n) const {
    return static_cast<uint32_t>((static_cast<uint64_t>(b) << 32 | a) << n >> 32);
  }
};
struct FunnelRight {
  uint32_t operator()(uint32_t a, uint32_t b, uint32_t n) const {
    return static_cast<uint32_t>((static_cast<uint64_t>(b) << 32 | a) >> n);
  }
};
template <typename F, bool kClamp>
struct Funnel {
  uint32_t operator()(uint32_t a, uint32_t b, uint32_t c) const {
    return F()(a, b, kClamp ? std::min(c, 32u) : c & 31);
  }
};
template <bool kClamp>
struct Mask {
  uint32_t operator()(uint32_t a, uint32_t b) const {
    if (!kClamp) a &= 31, b &= 31;
    const uint64_t ones = b >= 32 ? 0xffffffff : (uint64_t{1} << b) - 1;
    return a >= 32 ? 0 : static_cast<uint32_t>(ones << a);
  }
};

// bfi d, a, b, c, n: b with n bits from c on replaced by a's low bits.
template <typename T>
void Insert(Warp& w, const Instruction& in, uint32_t lanes) {
  constexpr uint32_t kBits = 8 * sizeof(T);
  const T *a = w.In<T>(in.a), *b = w.In<T>(in.b);
  const uint32_t *from = w.In<uint32_t>(in.c), *length = w.In<uint32_t>(in.list[0]);
  T result[kLanes];
  for (int i = 0; i < kLanes; ++i) {
    const uint32_t at = from[i] & 255, n = length[i] & 255;
    const T ones = n >= kBits ? ~T{0} : (T{1} << n) - 1;
    const T mask = at >= kBits ? T{0} : ones << at;
    result[i] = (b[i] & ~mask) | (at >= kBits ? T{0} : (a[i] << at) & mask);
  }
  Store(w.Out<T>(in.d), result, lanes);
}

bool DecodeInsert(Decoder& d, const Statement& s, Instruction& in) {
  const Type type = LastType(d, s);
  in.execute = SizeOf(type) == 4 ? Insert<uint32_t> : Insert<uint64_t>;
  in.d = d.Out(s.operands.at(0), type);
  in.a = d.In(s.operands.at(1), type);
  in.b = d.In(s.operands.at(2), type);
  in.c = d.In(s.operands.at(3), Type::kU32);
  d.KeepList(in, {d.InWide(s.operands.at(4), Type::kU32)});
  return true;
}

// The table's bit (4 a + 2 b + c) for each bit of the operands.
void Lop3(Warp& w, const Instruction& in, uint32_t lanes) {
  const uint32_t *a = w.In<uint32_t>(in.a), *b = w.In<uint32_t>(in.b), *c = w.In<uint32_t>(in.c);
  const auto table = static_cast<uint32_t>(in.immediate);
  uint32_t pick[8];
  for (int i = 0; i < 8; ++i) pick[i] = (table >> i & 1) != 0 ? ~0u : 0;
  uint32_t result[kLanes];
  for (int i = 0; i < kLanes; ++i) {
    const uint32_t x = a[i], y = b[i], z = c[i];
    const uint32_t low = (~y & ((~z & pick[0]) | (z & pick[1]))) | (y & ((~z & pick[2]) | (z & pick[3])));
    const uint32_t high = (~y & ((~z & pick[4]) | (z & pick[5]))) | (y & ((~z & pick[6]) | (z & pick[7])));
    result[i] = (~x & low) | (x & high);
  }
  Store(w.Out<uint32_t>(in.d), result, lanes);
}

// lop3.{and, or}: also a predicate, (d != 0) combined with another one.
void Lop3WithPredicate(Warp& w, const Instruction& in, uint32_t lanes) {
  Lop3(w, in, lanes);
  const uint32_t* const result = w.In<uint32_t>(in.d);
  const uint32_t other = *w.In<uint32_t>(in.list[1]) ^ in.flip;
  uint32_t bits = 0;
  for (int i = 0; i < kLanes; ++i) bits |= static_cast<uint32_t>(result[i] != 0) << i;
  w.SetPredicate(in.list[0], in.flag ? bits & other : bits | other, lanes);
}

bool DecodeLop3(Decoder& d, const Statement& s, Instruction& in) {
  const OperandSyntax& to = s.operands.at(0);
  const bool pair = to.kind == OperandSyntax::Kind::kPair;
  in.flag = s.Has("and");
  if (pair != (in.flag || s.Has("or"))) d.Fail("a predicate needs .and or .or, which need a predicate");
  in.execute = pair ? Lop3WithPredicate : Lop3;
  in.d = d.Out(pair ? to.parts.at(0) : to, Type::kB32);
  in.a = d.In(s.operands.at(1), Type::kB32);
  in.b = d.In(s.operands.at(2), Type::kB32);
  in.c = d.In(s.operands.at(3), Type::kB32);
  in.immediate = static_cast<int64_t>(s.operands.at(4).bits);
  if (!pair) return true;
  WideSlot other;
  static_cast<Slot&>(other) = d.InPredicate(s.operands.at(5), in.flip);
  d.KeepList(in, {d.OutWide(to.parts.at(1), Type::kPred), other});
  return true;
}

// Byte 0 to 7 of the selection of each result byte, by mode and the low bits of c. Bit 3 replicates the byte's sign.
uint32_t Selection(int64_t mode, uint32_t c) {
  const uint32_t n = c & 3;
  switch (mode) {
    case 1:
      return n | (n + 1) << 4 | (n + 2) << 8 | (n + 3) << 12;  // f4e
    case 2:
      return n | (7 & (n - 1)) << 4 | (7 & (n - 2)) << 8 | (7 & (n - 3)) << 12;  // b4e
    case 3:
      return n * 0x1111;  // rc8
    case 4:
      return std::max(n, 0u) | std::max(n, 1u) << 4 | std::max(n, 2u) << 8 | 3u << 12;  // ecl
    case 5:
      return 0 | std::min(n, 1u) << 4 | std::min(n, 2u) << 8 | std::min(n, 3u) << 12;  // ecr
    case 6:
      return (n & 1 ? 0x3232u : 0x1010u);  // rc16
    default:
      return c;
  }
}

void Permute(Warp& w, const Instruction& in, uint32_t lanes) {
  const uint32_t *a = w.In<uint32_t>(in.a), *b = w.In<uint32_t>(in.b), *c = w.In<uint32_t>(in.c);
  uint32_t result[kLanes];
  for (int i = 0; i < kLanes; ++i) {
    const uint64_t bytes = static_cast<uint64_t>(b[i]) << 32 | a[i];
    const uint32_t selection = Selection(in.immediate, c[i]);
    result[i] = 0;
    for (int k = 0; k < 4; ++k) {
      const uint32_t pick = selection >> (4 * k) & 15;
      uint32_t byte = bytes >> (8 * (pick & 7)) & 255;
      if (pick & 8) byte = byte & 128 ? 255 : 0;
      result[i] |= byte << (8 * k);
    }
  }
  Store(w.Out<uint32_t>(in.d), result, lanes);
}

bool DecodePermute(Decoder& d, const Statement& s, Instruction& in) {
  constexpr std::string_view kModes[] = {"", "f4e", "b4e", "rc8", "ecl", "ecr", "rc16"};
  for (size_t i = 1; i < std::size(kModes); ++i) {
    if (s.Has(kModes[i])) in.immediate = static_cast<int64_t>(i);
  }
  in.execute = Permute;
  d.Fill(s, in, Type::kB32, 3);
  return true;
}

bool DecodeFunnel(Decoder& d, const Statement& s, Instruction& in) {
  const bool clamp = s.Has("clamp");
  if (s.Has("l")) {
    in.execute = clamp ? Map3<Funnel<FunnelLeft, true>, uint32_t, uint32_t>
                       : Map3<Funnel<FunnelLeft, false>, uint32_t, uint32_t>;
  } else {
    in.execute = clamp ? Map3<Funnel<FunnelRight, true>, uint32_t, uint32_t>
                       : Map3<Funnel<FunnelRight, false>, uint32_t, uint32_t>;
  }
  d.Fill(s, in, Type::kB32, 3);
  return true;
}

// The low b bits of a as a number of their own sign; 0 bits are zero.
template <bool kClamp, typename T>
struct Extend {
  T operator()(T a, uint32_t b) const {
    const uint32_t n = kClamp ? std::min(b, 32u) : b & 31;
    if (n == 0) return 0;
    const uint32_t high = static_cast<uint32_t>(a) << (32 - n);
    return static_cast<T>(high) >> (32 - n);
  }
};

// szext.mode.type d, a, b
bool DecodeExtend(Decoder& d, const Statement& s, Instruction& in) {
  const Type type = LastType(d, s);
  const bool clamp = s.Has("clamp");
  in.execute = IsSigned(type) ? (clamp ? Map2<Extend<true, int32_t>, int32_t, int32_t, uint32_t>
                                       : Map2<Extend<false, int32_t>, int32_t, int32_t, uint32_t>)
                              : (clamp ? Map2<Extend<true, uint32_t>, uint32_t, uint32_t>
                                       : Map2<Extend<false, uint32_t>, uint32_t, uint32_t>);
  d.Fill(s, in, type, 2);
  return true;
}

bool DecodeMask(Decoder& d, const Statement& s, Instruction& in) {
  in.execute = s.Has("clamp") ? Map2<Mask<true>, uint32_t, uint32_t> : Map2<Mask<false>, uint32_t, uint32_t>;
  d.Fill(s, in, Type::kB32, 2);
  return true;
}

}  // namespace

std::span<const Rule> PermuteRules() {
  static constexpr Rule kRules[] = {{"bfi", DecodeInsert}, {"lop3", DecodeLop3}, {"prmt", DecodePermute},
                                    {"shf", DecodeFunnel}, {"bmsk", DecodeMask}, {"szext", DecodeExtend}};
  return kRules;
}

}  // namespace ingot::standin::ptx
