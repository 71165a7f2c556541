// Bit operations: logic, shifts, prmt, lop3, bfe, bfi, shf, popc, clz, brev, bfind, bmsk.
#include <algorithm>
#include <bit>
#include <type_traits>

#include "standin/ptx/decoder.h"
#include "standin/ptx/lanes.h"

namespace ingot::standin::ptx {
namespace {

struct And {
  template <typename T>
  T operator()(T a, T b) const {
    return a & b;
  }
};
struct Or {
  template <typename T>
  T operator()(T a, T b) const {
    return a | b;
  }
};
struct Xor {
  template <typename T>
  T operator()(T a, T b) const {
    return a ^ b;
  }
};
struct Not {
  template <typename T>
  T operator()(T a) const {
    return static_cast<T>(~a);
  }
};
struct LogicalNot {
  template <typename T>
  T operator()(T a) const {
    return a == 0;
  }
};
// Shifts by the width or more leave zeros, or copies of the sign.
struct ShiftLeft {
  template <typename T>
  T operator()(T a, uint32_t b) const {
    const auto bits = static_cast<std::make_unsigned_t<T>>(a);
    return b >= 8 * sizeof(T) ? T{0} : static_cast<T>(bits << b);
  }
};
struct ShiftRight {
  template <typename T>
  T operator()(T a, uint32_t b) const {
    return b >= 8 * sizeof(T) ? static_cast<T>(a < 0 ? -1 : 0) : static_cast<T>(a >> b);
  }
};
struct CountOnes {
  template <typename T>
  uint32_t operator()(T a) const {
    return static_cast<uint32_t>(std::popcount(a));
  }
};
struct CountLeadingZeros {
  template <typename T>
  uint32_t operator()(T a) const {
    return static_cast<uint32_t>(std::countl_zero(a));
  }
};
struct Reverse {
  template <typename T>
  T operator()(T a) const {
    T result = 0;
    for (size_t i = 0; i < 8 * sizeof(T); ++i) result |= static_cast<T>((a >> i & 1) << (8 * sizeof(T) - 1 - i));
    return result;
  }
};
template <bool kShift>
struct FindLeading {
  template <typename T>
  uint32_t operator()(T a) const {
    using U = std::make_unsigned_t<T>;
    const U bits = a < 0 ? static_cast<U>(~a) : static_cast<U>(a);
    if (bits == 0) return 0xffffffff;
    const auto zeros = static_cast<uint32_t>(std::countl_zero(bits));
    return kShift ? zeros : 8 * sizeof(T) - 1 - zeros;
  }
};
struct Extract {
  template <typename T>
  T operator()(T a, uint32_t b, uint32_t c) const {
    constexpr uint32_t kBits = 8 * sizeof(T);
    const uint32_t at = b & 255, length = c & 255;
    const bool sign = std::is_signed_v<T> && length != 0 && (a >> std::min(at + length - 1, kBits - 1) & 1) != 0;
    using U = std::make_unsigned_t<T>;
    U result = at < kBits ? static_cast<U>(static_cast<U>(a) >> at) : U{0};
    const uint32_t present = std::min(length, at < kBits ? kBits - at : 0);
    if (present < kBits) result = static_cast<U>((result & ((U{1} << present) - 1)) | (sign ? ~U{0} << present : U{0}));
    return static_cast<T>(result);
  }
};
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

// `Bits` (b32) as unsigned types.
template <template <typename> class Run>
Execute ByBits(Type type) {
  switch (SizeOf(type)) {
    case 2:
      return Run<uint16_t>::kExecute;
    case 4:
      return Run<uint32_t>::kExecute;
    case 8:
      return Run<uint64_t>::kExecute;
    default:
      return nullptr;
  }
}

template <typename F>
struct Logic2 {
  template <typename T>
  struct Of {
    static constexpr Execute kExecute = Map2<F, T, T>;
  };
};
template <typename F>
struct Logic1 {
  template <typename T>
  struct Of {
    static constexpr Execute kExecute = Map1<F, T, T>;
  };
};

// Predicates: one word with a bit per lane.
template <typename F>
void Predicates2(Warp& w, const Instruction& in, uint32_t lanes) {
  w.SetPredicate(in.d, F()(w.Predicate(in.a), w.Predicate(in.b) ^ in.flip), lanes);
}
void PredicatesNot(Warp& w, const Instruction& in, uint32_t lanes) { w.SetPredicate(in.d, ~w.Predicate(in.a), lanes); }

template <typename F>
bool Logic(Decoder& d, const Statement& s, Instruction& in) {
  const Type type = LastType(d, s);
  if (type == Type::kPred) {
    uint32_t flip = 0;
    in.execute = Predicates2<F>;
    in.d = d.Out(s.operands.at(0), type);
    in.a = d.InPredicate(s.operands.at(1), flip);
    if (flip != 0) d.Fail("a negated first operand");
    in.b = d.InPredicate(s.operands.at(2), in.flip);
    return true;
  }
  in.execute = ByBits<Logic2<F>::template Of>(type);
  d.Fill(s, in, type, 2);
  return in.execute != nullptr;
}

bool DecodeNot(Decoder& d, const Statement& s, Instruction& in) {
  const Type type = LastType(d, s);
  in.execute = type == Type::kPred ? PredicatesNot : ByBits<Logic1<Not>::template Of>(type);
  d.Fill(s, in, type, 1);
  return in.execute != nullptr;
}

bool DecodeLogicalNot(Decoder& d, const Statement& s, Instruction& in) {
  const Type type = LastType(d, s);
  in.execute = ByBits<Logic1<LogicalNot>::template Of>(type);
  d.Fill(s, in, type, 1);
  return in.execute != nullptr;
}

template <typename F>
bool Shift(Decoder& d, const Statement& s, Instruction& in) {
  const Type type = LastType(d, s);
  in.execute = ByInteger(type, []<typename T>(T*) -> Execute { return Map2<F, T, T, uint32_t>; });
  in.d = d.Out(s.operands.at(0), type);
  in.a = d.In(s.operands.at(1), type);
  in.b = d.In(s.operands.at(2), Type::kU32);
  return in.execute != nullptr;
}

template <typename F>
bool Count(Decoder& d, const Statement& s, Instruction& in) {
  const Type type = LastType(d, s);
  in.execute = SizeOf(type) == 4 ? Map1<F, uint32_t, uint32_t> : Map1<F, uint32_t, uint64_t>;
  in.d = d.Out(s.operands.at(0), Type::kU32);
  in.a = d.In(s.operands.at(1), type);
  return true;
}

bool DecodeReverse(Decoder& d, const Statement& s, Instruction& in) {
  const Type type = LastType(d, s);
  in.execute = ByBits<Logic1<Reverse>::template Of>(type);
  d.Fill(s, in, type, 1);
  return true;
}

bool DecodeFindLeading(Decoder& d, const Statement& s, Instruction& in) {
  const Type type = LastType(d, s);
  const bool shift = s.Has("shiftamt");
  in.execute = ByInteger(type, [&]<typename T>(T*) -> Execute {
    return shift ? Map1<FindLeading<true>, uint32_t, T> : Map1<FindLeading<false>, uint32_t, T>;
  });
  in.d = d.Out(s.operands.at(0), Type::kU32);
  in.a = d.In(s.operands.at(1), type);
  return in.execute != nullptr;
}

bool DecodeExtract(Decoder& d, const Statement& s, Instruction& in) {
  const Type type = LastType(d, s);
  in.execute = ByInteger(type, []<typename T>(T*) -> Execute { return Map3<Extract, T, T, uint32_t, uint32_t>; });
  in.d = d.Out(s.operands.at(0), type);
  in.a = d.In(s.operands.at(1), type);
  in.b = d.In(s.operands.at(2), Type::kU32);
  in.c = d.In(s.operands.at(3), Type::kU32);
  return in.execute != nullptr;
}

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

bool DecodeLop3(Decoder& d, const Statement& s, Instruction& in) {
  if (s.words.size() != 2) d.Fail("the form with a predicate");
  in.execute = Lop3;
  in.d = d.Out(s.operands.at(0), Type::kB32);
  in.a = d.In(s.operands.at(1), Type::kB32);
  in.b = d.In(s.operands.at(2), Type::kB32);
  in.c = d.In(s.operands.at(3), Type::kB32);
  in.immediate = static_cast<int64_t>(s.operands.at(4).bits);
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

bool DecodeMask(Decoder& d, const Statement& s, Instruction& in) {
  in.execute = s.Has("clamp") ? Map2<Mask<true>, uint32_t, uint32_t> : Map2<Mask<false>, uint32_t, uint32_t>;
  d.Fill(s, in, Type::kB32, 2);
  return true;
}

}  // namespace

std::span<const Rule> BitRules() {
  static constexpr Rule kRules[] = {
      {"and", Logic<And>},          {"or", Logic<Or>},
      {"xor", Logic<Xor>},          {"not", DecodeNot},
      {"shl", Shift<ShiftLeft>},    {"shr", Shift<ShiftRight>},
      {"popc", Count<CountOnes>},   {"clz", Count<CountLeadingZeros>},
      {"cnot", DecodeLogicalNot},   {"brev", DecodeReverse},
      {"bfind", DecodeFindLeading}, {"bfe", DecodeExtract},
      {"bfi", DecodeInsert},        {"lop3", DecodeLop3},
      {"prmt", DecodePermute},      {"shf", DecodeFunnel},
      {"bmsk", DecodeMask},
  };
  return kRules;
}

}  // namespace ingot::standin::ptx
