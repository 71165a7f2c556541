// Integer arithmetic: add, sub, mul, mad, div, rem, min, max, abs, neg, sad, their 24-bit and carrying forms, dp4a.
#include <algorithm>
#include <limits>
#include <type_traits>

#include "standin/ptx/decoder.h"
#include "standin/ptx/lanes.h"

namespace ingot::standin::ptx {
namespace {

// Sums and products wrap around; 16-bit ones must not be computed in `int`.
template <typename T>
using Bits = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;

struct Add {
  template <typename T>
  T operator()(T a, T b) const {
    return static_cast<T>(static_cast<Bits<T>>(a) + static_cast<Bits<T>>(b));
  }
};
struct Sub {
  template <typename T>
  T operator()(T a, T b) const {
    return static_cast<T>(static_cast<Bits<T>>(a) - static_cast<Bits<T>>(b));
  }
};
struct MulLow {
  template <typename T>
  T operator()(T a, T b) const {
    return static_cast<T>(static_cast<Bits<T>>(a) * static_cast<Bits<T>>(b));
  }
};
__extension__ typedef __int128 Int128;
__extension__ typedef unsigned __int128 UInt128;
template <typename T>
using Double =
    std::conditional_t<sizeof(T) == 2, std::conditional_t<std::is_signed_v<T>, int32_t, uint32_t>,
                       std::conditional_t<sizeof(T) == 4, std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>,
                                          std::conditional_t<std::is_signed_v<T>, Int128, UInt128>>>;
struct MulWide {
  template <typename T>
  Double<T> operator()(T a, T b) const {
    return static_cast<Double<T>>(a) * static_cast<Double<T>>(b);
  }
};
struct MulHigh {
  template <typename T>
  T operator()(T a, T b) const {
    return static_cast<T>(MulWide()(a, b) >> (8 * sizeof(T)));
  }
};
template <typename F>
struct ThenAdd {
  template <typename T, typename C>
  C operator()(T a, T b, C c) const {
    return Add()(static_cast<C>(F()(a, b)), c);
  }
};
// A card gives all ones for a divisor of zero; PTX leaves it open.
struct Div {
  template <typename T>
  T operator()(T a, T b) const {
    if (b == 0) return static_cast<T>(-1);
    if (std::is_signed_v<T> && b == static_cast<T>(-1)) return Sub()(T{0}, a);
    return static_cast<T>(a / b);
  }
};
struct Rem {
  template <typename T>
  T operator()(T a, T b) const {
    if (b == 0) return a;
    if (std::is_signed_v<T> && b == static_cast<T>(-1)) return 0;
    return static_cast<T>(a % b);
  }
};
struct Min {
  template <typename T>
  T operator()(T a, T b) const {
    return a < b ? a : b;
  }
};
struct Max {
  template <typename T>
  T operator()(T a, T b) const {
    return a > b ? a : b;
  }
};
struct Neg {
  template <typename T>
  T operator()(T a) const {
    return Sub()(T{0}, a);
  }
};
struct Abs {
  template <typename T>
  T operator()(T a) const {
    return a < 0 ? Neg()(a) : a;
  }
};
struct Sad {
  template <typename T>
  T operator()(T a, T b, T c) const {
    return Add()(c, a < b ? Sub()(b, a) : Sub()(a, b));
  }
};
template <bool kSub>
struct Saturated {
  int32_t operator()(int32_t a, int32_t b) const {
    const int64_t sum = kSub ? int64_t{a} - b : int64_t{a} + b;
    return static_cast<int32_t>(std::clamp<int64_t>(sum, INT32_MIN, INT32_MAX));
  }
};
template <bool kHigh>
struct Mul24 {
  template <typename T>
  T operator()(T a, T b) const {
    const auto low = [](T x) {  // the low 24 bits, extended by their sign
      return std::is_signed_v<T> ? int64_t{static_cast<int32_t>(static_cast<uint32_t>(x) << 8) >> 8}
                                 : static_cast<int64_t>(static_cast<uint32_t>(x) & 0xffffff);
    };
    return static_cast<T>((low(a) * low(b)) >> (kHigh ? 16 : 0));
  }
};

template <typename F>
bool Binary(Decoder& d, const Statement& s, Instruction& in) {
  const Type type = LastType(d, s);
  in.execute = ByInteger(type, []<typename T>(T*) -> Execute { return Map2<F, T, T>; });
  if (in.execute == nullptr) return false;
  d.Fill(s, in, type, 2);
  return true;
}

template <typename F>
bool Unary(Decoder& d, const Statement& s, Instruction& in) {
  const Type type = LastType(d, s);
  in.execute = ByInteger(type, []<typename T>(T*) -> Execute { return Map1<F, T, T>; });
  if (in.execute == nullptr) return false;
  d.Fill(s, in, type, 1);
  return true;
}

bool DecodeSad(Decoder& d, const Statement& s, Instruction& in) {
  const Type type = LastType(d, s);
  in.execute = ByInteger(type, []<typename T>(T*) -> Execute { return Map3<Sad, T, T>; });
  if (in.execute == nullptr) return false;
  d.Fill(s, in, type, 3);
  return true;
}

Type Widened(Type type) {
  switch (type) {
    case Type::kU16:
      return Type::kU32;
    case Type::kS16:
      return Type::kS32;
    case Type::kU32:
      return Type::kU64;
    default:
      return Type::kS64;
  }
}

bool DecodeMul(Decoder& d, const Statement& s, Instruction& in) {
  if (s.Has("hi")) return Binary<MulHigh>(d, s, in);
  if (!s.Has("wide")) return Binary<MulLow>(d, s, in);
  const Type type = LastType(d, s);
  in.execute = ByInteger(type, []<typename T>(T*) -> Execute {
    if constexpr (sizeof(T) < 8) return Map2<MulWide, Double<T>, T>;
    return nullptr;
  });
  if (in.execute == nullptr) return false;
  in.d = d.Out(s.operands.at(0), Widened(type));
  in.a = d.In(s.operands.at(1), type);
  in.b = d.In(s.operands.at(2), type);
  return true;
}

bool DecodeMadWide(Decoder& d, const Statement& s, Instruction& in) {
  const Type type = LastType(d, s);
  in.execute = ByInteger(type, []<typename T>(T*) -> Execute {
    if constexpr (sizeof(T) < 8) return Map3<ThenAdd<MulWide>, Double<T>, T, T, Double<T>>;
    return nullptr;
  });
  if (in.execute == nullptr) return false;
  in.d = d.Out(s.operands.at(0), Widened(type));
  in.a = d.In(s.operands.at(1), type);
  in.b = d.In(s.operands.at(2), type);
  in.c = d.In(s.operands.at(3), Widened(type));
  return true;
}

// Sums with a carry. A lane's carry is a bit of the warp's carry word.
struct CarryMode {
  bool high, multiply, subtract, reads, writes;
};

template <typename T>
void Carrying(Warp& w, const Instruction& in, uint32_t lanes) {
  CarryMode mode;
  std::memcpy(&mode, &in.immediate, sizeof(mode));
  using U = std::make_unsigned_t<T>;
  const T *a = w.In<T>(in.a), *b = w.In<T>(in.b), *c = w.In<T>(in.c);
  T* const to = w.Out<T>(in.d);
  uint32_t carries = *w.Carry();
  ForLanes(lanes, [&](int lane) {
    const auto x = static_cast<U>(mode.multiply ? (mode.high ? MulHigh()(a[lane], b[lane]) : MulLow()(a[lane], b[lane]))
                                                : a[lane]);
    const auto y = static_cast<U>(mode.multiply ? c[lane] : b[lane]);
    const UInt128 before = mode.reads ? carries >> lane & 1 : 0;
    const UInt128 sum = mode.subtract ? static_cast<UInt128>(x) - y - before : static_cast<UInt128>(x) + y + before;
    const auto carry = static_cast<uint32_t>(sum >> (8 * sizeof(T)) & 1);
    if (mode.writes) carries = (carries & ~(1u << lane)) | carry << lane;
    to[lane] = static_cast<T>(sum);
  });
  *w.Carry() = carries;
}

bool DecodeCarry(Decoder& d, const Statement& s, Instruction& in) {
  const std::string_view op = s.words[0];
  const bool multiply = op[0] == 'm';
  const CarryMode mode{s.Has("hi"), multiply, op[0] == 's', op.back() == 'c', s.Has("cc")};
  static_assert(sizeof(CarryMode) <= sizeof(in.immediate));
  std::memcpy(&in.immediate, &mode, sizeof(mode));
  const Type type = LastType(d, s);
  in.execute = ByInteger(type, []<typename T>(T*) -> Execute {
    if constexpr (sizeof(T) >= 4) return Carrying<T>;
    return nullptr;
  });
  if (in.execute == nullptr) return false;
  d.Fill(s, in, type, multiply ? 3 : 2);
  return true;
}

template <bool kSub>
bool DecodeSum(Decoder& d, const Statement& s, Instruction& in) {
  if (s.Has("cc")) return DecodeCarry(d, s, in);
  if (!s.Has("sat")) return Binary<std::conditional_t<kSub, Sub, Add>>(d, s, in);
  if (LastType(d, s) != Type::kS32) return false;
  in.execute = Map2<Saturated<kSub>, int32_t, int32_t>;
  d.Fill(s, in, Type::kS32, 2);
  return true;
}

template <typename F>
bool MultiplyAdd(Decoder& d, const Statement& s, Instruction& in) {
  const Type type = LastType(d, s);
  in.execute = ByInteger(type, []<typename T>(T*) -> Execute { return Map3<ThenAdd<F>, T, T>; });
  if (in.execute == nullptr) return false;
  d.Fill(s, in, type, 3);
  return true;
}

bool DecodeMad(Decoder& d, const Statement& s, Instruction& in) {
  if (s.Has("cc")) return DecodeCarry(d, s, in);
  if (s.Has("wide")) return DecodeMadWide(d, s, in);
  return s.Has("hi") ? MultiplyAdd<MulHigh>(d, s, in) : MultiplyAdd<MulLow>(d, s, in);
}

template <bool kAdd>
bool Decode24(Decoder& d, const Statement& s, Instruction& in) {
  const Type type = LastType(d, s);
  const auto choose = [&]<typename T>(T*) -> Execute {
    if constexpr (sizeof(T) != 4) return nullptr;
    if (kAdd) return s.Has("hi") ? Map3<ThenAdd<Mul24<true>>, T, T> : Map3<ThenAdd<Mul24<false>>, T, T>;
    return s.Has("hi") ? Map2<Mul24<true>, T, T> : Map2<Mul24<false>, T, T>;
  };
  in.execute = ByInteger(type, choose);
  if (in.execute == nullptr) return false;
  d.Fill(s, in, type, kAdd ? 3 : 2);
  return true;
}

}  // namespace

std::span<const Rule> ArithmeticRules() {
  static constexpr Rule kRules[] = {
      {"add", DecodeSum<false>}, {"sub", DecodeSum<true>}, {"mul", DecodeMul},         {"mad", DecodeMad},
      {"div", Binary<Div>},      {"rem", Binary<Rem>},     {"min", Binary<Min>},       {"max", Binary<Max>},
      {"neg", Unary<Neg>},       {"abs", Unary<Abs>},      {"sad", DecodeSad},         {"addc", DecodeCarry},
      {"subc", DecodeCarry},     {"madc", DecodeCarry},    {"mul24", Decode24<false>}, {"mad24", Decode24<true>},
  };
  return kRules;
}

}  // namespace ingot::standin::ptx
