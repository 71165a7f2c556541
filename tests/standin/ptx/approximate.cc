// The approximate instructions: computed in fp64 and rounded, and with Options::approximate off by up to two units in the last place.
#include <algorithm>

#include "standin/ptx/block.h"
#include "standin/ptx/float.h"
#include "standin/ptx/float_rules.h"
#include "standin/ptx/lanes.h"

namespace ingot::standin::ptx {
namespace {

uint32_t Hash(uint32_t x) {
  x = (x ^ x >> 16) * 0x7feb352d;
  x = (x ^ x >> 15) * 0x846ca68b;
  return x ^ x >> 16;
}

// Moves a normal result by -2 to 2 units. Inputs for which PTX states the result keep it.
float Nudge(float result, float input) {
  const bool stated = !std::isnormal(input) || !std::isnormal(result);
  const uint32_t bits = std::bit_cast<uint32_t>(result);
  const float moved = std::bit_cast<float>(bits + Hash(std::bit_cast<uint32_t>(input)) % 5 - 2);
  return stated || !std::isnormal(moved) ? result : moved;
}

struct Exp2 {
  double operator()(double x) const { return std::exp2(x); }
};
struct Log2 {
  double operator()(double x) const { return std::log2(x); }
};
struct Sin {
  double operator()(double x) const { return std::sin(x); }
};
struct Cos {
  double operator()(double x) const { return std::cos(x); }
};
struct Tanh {
  double operator()(double x) const { return std::tanh(x); }
};
struct Reciprocal {
  double operator()(double x) const { return 1 / x; }
};
struct ReciprocalSqrt {
  double operator()(double x) const { return 1 / std::sqrt(x); }
};
struct Sqrt {
  double operator()(double x) const { return std::sqrt(x); }
};

template <typename F, bool kFtz>
void Approximate(Warp& w, const Instruction& in, uint32_t lanes) {
  const float* const a = w.In<float>(in.a);
  float* const to = w.Out<float>(in.d);
  const bool nudge = w.block().launch().options.approximate;
  ForLanes(lanes, [&](int lane) {
    const float x = kFtz ? Flush(a[lane]) : a[lane];
    float r = Canonical(static_cast<float>(F()(x)));
    if (kFtz) r = Flush(r);
    to[lane] = nudge ? Nudge(r, x) : r;
  });
}

template <bool kFtz>
void Divide(Warp& w, const Instruction& in, uint32_t lanes) {
  const float *a = w.In<float>(in.a), *b = w.In<float>(in.b);
  float* const to = w.Out<float>(in.d);
  const bool nudge = w.block().launch().options.approximate;
  ForLanes(lanes, [&](int lane) {
    const float x = kFtz ? Flush(a[lane]) : a[lane], y = kFtz ? Flush(b[lane]) : b[lane];
    float r = Canonical(x / y);
    if (kFtz) r = Flush(r);
    to[lane] = nudge ? Nudge(r, x * y) : r;
  });
}

// rcp and rsqrt of fp64: 20 bits of the fraction from the upper word of the input.
template <typename F>
void Upper(Warp& w, const Instruction& in, uint32_t lanes) {
  constexpr uint64_t kUpper = 0xffffffff00000000;
  const uint64_t* const a = w.In<uint64_t>(in.a);
  uint64_t* const to = w.Out<uint64_t>(in.d);
  ForLanes(lanes, [&](int lane) {
    double x = std::bit_cast<double>(a[lane] & kUpper);
    if (std::fabs(x) < 0x1p-1022) x = std::copysign(0.0, x);
    double r = F()(x);
    if (std::fabs(r) < 0x1p-1022) r = std::copysign(0.0, r);
    to[lane] = std::bit_cast<uint64_t>(r) & kUpper;
  });
}

struct Row {
  std::string_view name;
  Execute plain, ftz, wide;
};

constexpr Row kRows[] = {
    {"ex2", Approximate<Exp2, false>, Approximate<Exp2, true>, nullptr},
    {"lg2", Approximate<Log2, false>, Approximate<Log2, true>, nullptr},
    {"sin", Approximate<Sin, false>, Approximate<Sin, true>, nullptr},
    {"cos", Approximate<Cos, false>, Approximate<Cos, true>, nullptr},
    {"tanh", Approximate<Tanh, false>, Approximate<Tanh, false>, nullptr},
    {"rcp", Approximate<Reciprocal, false>, Approximate<Reciprocal, true>, Upper<Reciprocal>},
    {"rsqrt", Approximate<ReciprocalSqrt, false>, Approximate<ReciprocalSqrt, true>, Upper<ReciprocalSqrt>},
    {"sqrt", Approximate<Sqrt, false>, Approximate<Sqrt, true>, nullptr},
    {"div", Divide<false>, Divide<true>, nullptr},
};

}  // namespace

bool DecodeApproximate(Decoder& d, const Statement& s, Instruction& in) {
  if (!s.Has("approx") && !s.Has("full")) return false;
  const Type type = LastType(d, s);
  for (const Row& row : kRows) {
    if (row.name != s.words[0]) continue;
    in.execute = type == Type::kF64 ? row.wide : s.Has("ftz") ? row.ftz : row.plain;
    if (in.execute == nullptr) return false;
    d.Fill(s, in, type, row.name == "div" ? 2 : 1);
    return true;
  }
  return false;
}

}  // namespace ingot::standin::ptx
