// Rounding toward zero, minus and plus infinity, by the mode of the processor. Compiled with -frounding-math.
#include <cfenv>

#include "standin/ptx/float.h"
#include "standin/ptx/float_rules.h"
#include "standin/ptx/lanes.h"

namespace ingot::standin::ptx {
namespace {

enum class Operation : uint8_t { kAdd, kSub, kMul, kFma, kDiv, kSqrt, kReciprocal };

struct OperationRow {
  std::string_view name;
  Operation operation;
  int sources;
};

constexpr OperationRow kOperations[] = {{"add", Operation::kAdd, 2},   {"sub", Operation::kSub, 2},
                                        {"mul", Operation::kMul, 2},   {"fma", Operation::kFma, 3},
                                        {"mad", Operation::kFma, 3},   {"div", Operation::kDiv, 2},
                                        {"sqrt", Operation::kSqrt, 1}, {"rcp", Operation::kReciprocal, 1}};

struct Mode {
  Operation operation;
  bool ftz, sat;
  int rounding;
};

// Not inlined: the compiler must not move the arithmetic out of its rounding mode.
template <typename T>
[[gnu::noinline]] T Compute(Operation operation, T a, T b, T c) {
  switch (operation) {
    case Operation::kAdd:
      return a + b;
    case Operation::kSub:
      return a - b;
    case Operation::kMul:
      return a * b;
    case Operation::kFma:
      return std::fma(a, b, c);
    case Operation::kDiv:
      return a / b;
    case Operation::kSqrt:
      return std::sqrt(a);
    default:
      return T{1} / a;
  }
}

template <typename T>
void Run(Warp& w, const Instruction& in, uint32_t lanes) {
  Mode mode;
  std::memcpy(&mode, &in.immediate, sizeof(mode));
  const T *a = w.In<T>(in.a), *b = w.In<T>(in.b), *c = w.In<T>(in.c);
  T* const to = w.Out<T>(in.d);
  const auto flush = [&mode](T x) { return mode.ftz ? Flush(x) : x; };
  const int before = std::fegetround();
  std::fesetround(mode.rounding);
  ForLanes(lanes, [&](int lane) {
    const T r = flush(Canonical(Compute<T>(mode.operation, flush(a[lane]), flush(b[lane]), flush(c[lane]))));
    to[lane] = !mode.sat ? r : r > T{0} ? (r < T{1} ? r : T{1}) : T{0};
  });
  std::fesetround(before);
}

}  // namespace

bool DecodeRounded(Decoder& d, const Statement& s, Instruction& in) {
  const int rounding = s.Has("rz") ? FE_TOWARDZERO : s.Has("rm") ? FE_DOWNWARD : s.Has("rp") ? FE_UPWARD : FE_TONEAREST;
  if (rounding == FE_TONEAREST) return false;
  for (const OperationRow& row : kOperations) {
    if (row.name != s.words[0]) continue;
    const Mode mode{row.operation, s.Has("ftz"), s.Has("sat"), rounding};
    static_assert(sizeof(mode) <= sizeof(in.immediate));
    std::memcpy(&in.immediate, &mode, sizeof(mode));
    const Type type = LastType(d, s);
    d.Fill(s, in, type, row.sources);
    if (row.sources < 3) in.c = in.a;
    if (row.sources < 2) in.b = in.a;
    in.execute = type == Type::kF64 ? Run<double> : Run<float>;
    return true;
  }
  return false;
}

}  // namespace ingot::standin::ptx
