// fp32 and fp64 arithmetic with one rounding each; rounding.cc has the modes other than to nearest, approximate.cc the approximations.
#include <algorithm>

#include "standin/ptx/decoder.h"
#include "standin/ptx/float.h"
#include "standin/ptx/float_rules.h"
#include "standin/ptx/lanes.h"

namespace ingot::standin::ptx {
namespace {

struct Add {
  template <typename T>
  T operator()(T a, T b) const {
    return a + b;
  }
};
struct Sub {
  template <typename T>
  T operator()(T a, T b) const {
    return a - b;
  }
};
struct Mul {
  template <typename T>
  T operator()(T a, T b) const {
    return a * b;
  }
};
struct Div {
  template <typename T>
  T operator()(T a, T b) const {
    return a / b;
  }
};
struct Fma {
  template <typename T>
  T operator()(T a, T b, T c) const {
    return std::fma(a, b, c);
  }
};
struct Sqrt {
  template <typename T>
  T operator()(T a) const {
    return std::sqrt(a);
  }
};
struct Reciprocal {
  template <typename T>
  T operator()(T a) const {
    return T{1} / a;
  }
};
struct Neg {
  template <typename T>
  T operator()(T a) const {
    return -a;
  }
};
struct Abs {
  template <typename T>
  T operator()(T a) const {
    return std::fabs(a);
  }
};
struct CopySign {
  template <typename T>
  T operator()(T a, T b) const {
    return std::copysign(b, a);
  }
};

enum Modifiers { kNone = 0, kFtz = 1, kSat = 2 };

template <typename F, int kModifiers>
struct Modified {
  template <typename T, typename... U>
  T operator()(T a, U... more) const {
    T r = kModifiers & kFtz ? F()(Flush(a), Flush(more)...) : F()(a, more...);
    if (kModifiers & kFtz) r = Flush(r);
    if (kModifiers & kSat) return r > T{0} ? std::min(r, T{1}) : T{0};
    return Canonical(r);
  }
};

template <typename F, typename T, int kSources, int kModifiers>
constexpr Execute Mapped() {
  using M = Modified<F, kModifiers>;
  if constexpr (kSources == 1) return Map1<M, T, T>;
  if constexpr (kSources == 2) return Map2<M, T, T>;
  if constexpr (kSources == 3) return Map3<M, T, T>;
}

template <typename F, int kSources>
Execute Choose(Type type, int modifiers) {
  constexpr Execute kSingle[] = {Mapped<F, float, kSources, 0>(), Mapped<F, float, kSources, 1>(),
                                 Mapped<F, float, kSources, 2>(), Mapped<F, float, kSources, 3>()};
  return type == Type::kF32 ? kSingle[modifiers] : Mapped<F, double, kSources, 0>();
}

bool IsWide(Type type) { return type == Type::kF32 || type == Type::kF64; }

template <typename F, int kSources>
bool Decode(Decoder& d, const Statement& s, Instruction& in) {
  const Type type = LastType(d, s);
  if (!IsWide(type)) return false;
  if (DecodeApproximate(d, s, in) || DecodeRounded(d, s, in)) return true;
  in.execute = Choose<F, kSources>(type, (s.Has("ftz") ? kFtz : 0) | (s.Has("sat") ? kSat : 0));
  d.Fill(s, in, type, kSources);
  return true;
}

// Changes the sign or takes a value as it is: not-a-number stays what it was.
template <typename F, int kSources>
bool DecodeBits(Decoder& d, const Statement& s, Instruction& in) {
  const Type type = LastType(d, s);
  if (!IsWide(type)) return false;
  const bool wide = type == Type::kF64;
  if constexpr (kSources == 1) {
    in.execute = wide           ? Map1<F, double, double>
                 : s.Has("ftz") ? Map1<Modified<F, kFtz>, float, float>
                                : Map1<F, float, float>;
  } else {
    in.execute = wide ? Map2<F, double, double> : Map2<F, float, float>;
  }
  d.Fill(s, in, type, kSources);
  return true;
}

template <typename F>
bool DecodeExtreme(Decoder& d, const Statement& s, Instruction& in) {
  if (!IsWide(LastType(d, s))) return false;
  if (s.Has("xorsign") || s.operands.size() != 3) d.Fail("this form is not built");
  return s.Has("NaN") ? Decode<PassNan<F>, 2>(d, s, in) : Decode<F, 2>(d, s, in);
}

bool DecodeApproximateOnly(Decoder& d, const Statement& s, Instruction& in) {
  return IsWide(LastType(d, s)) && DecodeApproximate(d, s, in);
}

// testp.kind.type p, a
template <typename T>
void TestProperty(Warp& w, const Instruction& in, uint32_t lanes) {
  const T* const a = w.In<T>(in.a);
  uint32_t bits = 0;
  ForLanes(lanes, [&](int lane) {
    const int kind = std::fpclassify(a[lane]);
    const bool holds[] = {std::isfinite(a[lane]), kind == FP_INFINITE, kind != FP_NAN,
                          kind == FP_NAN,         kind == FP_NORMAL,   kind == FP_SUBNORMAL || kind == FP_ZERO};
    bits |= static_cast<uint32_t>(holds[in.immediate]) << lane;
  });
  w.SetPredicate(in.d, bits, lanes);
}

bool DecodeTestProperty(Decoder& d, const Statement& s, Instruction& in) {
  constexpr std::string_view kKinds[] = {"finite", "infinite", "number", "notanumber", "normal", "subnormal"};
  const Type type = LastType(d, s);
  in.immediate = std::find(std::begin(kKinds), std::end(kKinds), s.words.at(1)) - std::begin(kKinds);
  if (in.immediate == std::ssize(kKinds)) d.Fail("an unknown property");
  in.execute = type == Type::kF64 ? TestProperty<double> : TestProperty<float>;
  in.d = d.Out(s.operands.at(0), Type::kPred);
  in.a = d.In(s.operands.at(1), type);
  return true;
}

}  // namespace

std::span<const Rule> FloatRules() {
  static constexpr Rule kRules[] = {
      {"add", Decode<Add, 2>},
      {"sub", Decode<Sub, 2>},
      {"mul", Decode<Mul, 2>},
      {"fma", Decode<Fma, 3>},
      {"mad", Decode<Fma, 3>},
      {"div", Decode<Div, 2>},
      {"rcp", Decode<Reciprocal, 1>},
      {"sqrt", Decode<Sqrt, 1>},
      {"min", DecodeExtreme<FloatMin>},
      {"max", DecodeExtreme<FloatMax>},
      {"neg", DecodeBits<Neg, 1>},
      {"abs", DecodeBits<Abs, 1>},
      {"copysign", DecodeBits<CopySign, 2>},
      {"rsqrt", DecodeApproximateOnly},
      {"ex2", DecodeApproximateOnly},
      {"lg2", DecodeApproximateOnly},
      {"sin", DecodeApproximateOnly},
      {"cos", DecodeApproximateOnly},
      {"tanh", DecodeApproximateOnly},
      {"testp", DecodeTestProperty},
  };
  return kRules;
}

}  // namespace ingot::standin::ptx
