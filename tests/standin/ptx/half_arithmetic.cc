// Arithmetic of fp16 and bf16, one value or two in a register. Computed in fp64 and rounded once.
#include <algorithm>
#include <cmath>

#include "standin/ptx/decoder.h"
#include "standin/ptx/float.h"
#include "standin/ptx/half.h"
#include "standin/ptx/lanes.h"

namespace ingot::standin::ptx {
namespace {

struct Add {
  double operator()(double a, double b, double) const { return a + b; }
};
struct Sub {
  double operator()(double a, double b, double) const { return a - b; }
};
struct Mul {
  double operator()(double a, double b, double) const { return a * b; }
};
// A product of halves is exact in fp64. The sum is rounded to odd, so that the second rounding sees what the first cut off.
struct Fma {
  double operator()(double a, double b, double c) const {
    const double product = a * b, sum = product + c;
    const double part = sum - product, error = (product - (sum - part)) + (c - part);
    if (error == 0 || !std::isfinite(sum)) return sum;
    const uint64_t bits = std::bit_cast<uint64_t>(sum);
    if (bits & 1) return sum;
    return std::bit_cast<double>((error > 0) == (sum > 0) ? bits | 1 : bits - 1);
  }
};
struct Min {
  double operator()(double a, double b, double) const { return FloatMin()(a, b); }
};
struct Max {
  double operator()(double a, double b, double) const { return FloatMax()(a, b); }
};
struct MinNan {
  double operator()(double a, double b, double) const { return PassNan<FloatMin>()(a, b); }
};
struct MaxNan {
  double operator()(double a, double b, double) const { return PassNan<FloatMax>()(a, b); }
};
struct Neg {
  double operator()(double a, double, double) const { return -a; }
};
struct Abs {
  double operator()(double a, double, double) const { return std::fabs(a); }
};
struct Exp2 {
  double operator()(double a, double, double) const { return std::exp2(a); }
};
struct Tanh {
  double operator()(double a, double, double) const { return std::tanh(a); }
};

enum Modifier : uint8_t { kSat = 1, kRelu = 2, kFtz = 4 };

// .ftz: a number below the least normal one becomes a zero of its sign.
template <typename Format>
uint16_t Flushed(uint16_t bits) {
  return std::fabs(Format::ToFloat(bits)) < Format::kLeastNormal ? bits & 0x8000 : bits;
}

template <typename Format>
double Read(uint16_t bits, int modifiers) {
  return Format::ToFloat(modifiers & kFtz ? Flushed<Format>(bits) : bits);
}

// in.count: values per register; in.size: modifiers.
template <typename F, typename Format>
void Run(Warp& w, const Instruction& in, uint32_t lanes) {
  const uint16_t *a = w.In<uint16_t>(in.a), *b = w.In<uint16_t>(in.b), *c = w.In<uint16_t>(in.c);
  uint16_t* const to = w.Out<uint16_t>(in.d);
  ForLanes(lanes, [&](int lane) {
    for (uint32_t i = 0; i < in.count; ++i) {
      const size_t at = lane * in.count + i;
      double r = F()(Read<Format>(a[at], in.size), Read<Format>(b[at], in.size), Read<Format>(c[at], in.size));
      if (in.size & kSat) r = r > 0 ? std::min(r, 1.0) : 0;
      if (in.size & kRelu && r < 0) r = 0;
      to[at] = in.size & kFtz ? Flushed<Format>(Format::From(r)) : Format::From(r);
    }
  });
}

template <typename F, int kSources>
bool Decode(Decoder& d, const Statement& s, Instruction& in) {
  const Type type = LastType(d, s);
  const bool half = type == Type::kF16 || type == Type::kF16x2;
  if (!half && type != Type::kBF16 && type != Type::kBF16x2) return false;
  in.count = static_cast<uint32_t>(SizeOf(type) / 2);
  in.size = (s.Has("sat") ? kSat : 0) | (s.Has("relu") ? kRelu : 0) | (s.Has("ftz") ? kFtz : 0);
  in.execute = half ? Run<F, Half> : Run<F, Bfloat>;
  d.Fill(s, in, type, kSources);
  if (kSources < 2) in.b = in.a;
  if (kSources < 3) in.c = in.a;
  return true;
}

template <typename F, typename WithNan>
bool DecodeExtreme(Decoder& d, const Statement& s, Instruction& in) {
  return s.Has("NaN") ? Decode<WithNan, 2>(d, s, in) : Decode<F, 2>(d, s, in);
}

}  // namespace

std::span<const Rule> HalfRules() {
  static constexpr Rule kRules[] = {
      {"add", Decode<Add, 2>},
      {"sub", Decode<Sub, 2>},
      {"mul", Decode<Mul, 2>},
      {"fma", Decode<Fma, 3>},
      {"neg", Decode<Neg, 1>},
      {"abs", Decode<Abs, 1>},
      {"ex2", Decode<Exp2, 1>},
      {"tanh", Decode<Tanh, 1>},
      {"min", DecodeExtreme<Min, MinNan>},
      {"max", DecodeExtreme<Max, MaxNan>},
  };
  return kRules;
}

}  // namespace ingot::standin::ptx
