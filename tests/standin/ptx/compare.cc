// setp, set, selp and slct.
#include <algorithm>
#include <cmath>
#include <iterator>

#include "standin/ptx/decoder.h"
#include "standin/ptx/float.h"
#include "standin/ptx/half.h"
#include "standin/ptx/lanes.h"

namespace ingot::standin::ptx {
namespace {

enum class Combine : uint8_t { kNone, kAnd, kOr, kXor };

struct Eq {
  template <typename T>
  bool operator()(T a, T b) const {
    return a == b;
  }
};
struct Lt {
  template <typename T>
  bool operator()(T a, T b) const {
    return a < b;
  }
};
struct Le {
  template <typename T>
  bool operator()(T a, T b) const {
    return a <= b;
  }
};
// Both are numbers.
struct Num {
  template <typename T>
  bool operator()(T a, T b) const {
    return a == a && b == b;
  }
};
template <typename F>
struct Not {
  template <typename T>
  bool operator()(T a, T b) const {
    return !F()(a, b);
  }
};
template <typename F>
struct Swapped {
  template <typename T>
  bool operator()(T a, T b) const {
    return F()(b, a);
  }
};
// Neither equal nor unordered.
struct Ne {
  template <typename T>
  bool operator()(T a, T b) const {
    return a < b || b < a;
  }
};

// The lanes for which a comparison holds.
using Compare = uint32_t (*)(const void* a, const void* b);

template <typename F, typename T, bool kFtz>
uint32_t CompareLanes(const void* a, const void* b) {
  struct Flushed {
    bool operator()(T x, T y) const {
      if constexpr (kFtz) return F()(Flush(x), Flush(y));
      return F()(x, y);
    }
  };
  return Test2<Flushed>(static_cast<const T*>(a), static_cast<const T*>(b));
}

template <typename F, typename Format>
uint32_t CompareHalves(const void* a, const void* b) {
  struct Widened {
    bool operator()(uint16_t x, uint16_t y) const { return F()(Format::ToFloat(x), Format::ToFloat(y)); }
  };
  return Test2<Widened>(static_cast<const uint16_t*>(a), static_cast<const uint16_t*>(b));
}

template <typename F>
Compare ForFloats(Type type, bool ftz) {
  switch (type) {
    case Type::kF32:
      return ftz ? CompareLanes<F, float, true> : CompareLanes<F, float, false>;
    case Type::kF64:
      return CompareLanes<F, double, false>;
    case Type::kF16:
      return CompareHalves<F, Half>;
    case Type::kBF16:
      return CompareHalves<F, Bfloat>;
    default:
      return nullptr;
  }
}

template <typename F>
Compare ForIntegers(Type type) {
  switch (type) {
    case Type::kU16:
    case Type::kB16:
      return CompareLanes<F, uint16_t, false>;
    case Type::kU32:
    case Type::kB32:
      return CompareLanes<F, uint32_t, false>;
    case Type::kU64:
    case Type::kB64:
      return CompareLanes<F, uint64_t, false>;
    case Type::kS16:
      return CompareLanes<F, int16_t, false>;
    case Type::kS32:
      return CompareLanes<F, int32_t, false>;
    case Type::kS64:
      return CompareLanes<F, int64_t, false>;
    default:
      return nullptr;
  }
}

struct Row {
  std::string_view name;
  Compare (*integers)(Type type);
  Compare (*floats)(Type type, bool ftz);
};

constexpr Row kRows[] = {
    {"eq", ForIntegers<Eq>, ForFloats<Eq>},
    {"ne", ForIntegers<Not<Eq>>, ForFloats<Ne>},
    {"lt", ForIntegers<Lt>, ForFloats<Lt>},
    {"le", ForIntegers<Le>, ForFloats<Le>},
    {"gt", ForIntegers<Swapped<Lt>>, ForFloats<Swapped<Lt>>},
    {"ge", ForIntegers<Swapped<Le>>, ForFloats<Swapped<Le>>},
    {"lo", ForIntegers<Lt>, nullptr},
    {"ls", ForIntegers<Le>, nullptr},
    {"hi", ForIntegers<Swapped<Lt>>, nullptr},
    {"hs", ForIntegers<Swapped<Le>>, nullptr},
    {"equ", nullptr, ForFloats<Not<Ne>>},
    {"neu", nullptr, ForFloats<Not<Eq>>},
    {"ltu", nullptr, ForFloats<Not<Swapped<Le>>>},
    {"leu", nullptr, ForFloats<Not<Swapped<Lt>>>},
    {"gtu", nullptr, ForFloats<Not<Le>>},
    {"geu", nullptr, ForFloats<Not<Lt>>},
    {"num", nullptr, ForFloats<Num>},
    {"nan", nullptr, ForFloats<Not<Num>>},
};

uint32_t Combined(Combine combine, uint32_t bits, uint32_t other) {
  switch (combine) {
    case Combine::kAnd:
      return bits & other;
    case Combine::kOr:
      return bits | other;
    case Combine::kXor:
      return bits ^ other;
    default:
      return bits;
  }
}

// in.immediate is the Compare, in.size the Combine; the list has the complement's predicate, if there is one.
void SetPredicate(Warp& w, const Instruction& in, uint32_t lanes) {
  const auto compare = reinterpret_cast<Compare>(in.immediate);
  const auto combine = static_cast<Combine>(in.size);
  const uint32_t bits = compare(w.In<void>(in.a), w.In<void>(in.b));
  const uint32_t other = combine == Combine::kNone ? 0 : w.Predicate(in.c) ^ in.flip;
  w.SetPredicate(in.d, Combined(combine, bits, other), lanes);
  if (in.count != 0) w.SetPredicate(in.list[0], Combined(combine, ~bits, other), lanes);
}

// set.op.dtype: all ones or zeros, 1.0 or 0.0.
void SetValue(Warp& w, const Instruction& in, uint32_t lanes) {
  const auto compare = reinterpret_cast<Compare>(in.immediate);
  const uint32_t bits = compare(w.In<void>(in.a), w.In<void>(in.b));
  uint32_t* const to = w.Out<uint32_t>(in.d);
  ForLanes(lanes, [&](int lane) { to[lane] = (bits >> lane & 1) == 0 ? 0 : in.flag ? 0x3f800000 : kAllLanes; });
}

// set of halves, one or two in a register (in.size), to 1.0 and 0.0 of their format (in.target has the bits of 1.0).
void SetHalves(Warp& w, const Instruction& in, uint32_t lanes) {
  const auto compare = reinterpret_cast<Compare>(in.immediate);
  const uint16_t *a = w.In<uint16_t>(in.a), *b = w.In<uint16_t>(in.b);
  uint16_t* const to = w.Out<uint16_t>(in.d);
  for (int half = 0; half < in.size; ++half) {
    uint16_t x[kLanes], y[kLanes];
    for (int lane = 0; lane < kLanes; ++lane) {
      x[lane] = a[lane * in.size + half];
      y[lane] = b[lane * in.size + half];
    }
    const uint32_t bits = compare(x, y);
    const auto one = static_cast<uint16_t>(in.target);
    ForLanes(lanes, [&](int lane) { to[lane * in.size + half] = (bits >> lane & 1) != 0 ? one : uint16_t{0}; });
  }
}

bool DecodeSetHalves(Decoder& d, const Statement& s, Instruction& in, Type type) {
  const bool half = type == Type::kF16 || type == Type::kF16x2;
  for (const Row& row : kRows) {
    if (row.name != s.words.at(1) || row.floats == nullptr) continue;
    in.immediate = reinterpret_cast<intptr_t>(row.floats(half ? Type::kF16 : Type::kBF16, false));
    in.size = static_cast<uint8_t>(SizeOf(type) / 2);
    in.target = half ? 0x3c00 : 0x3f80;
    in.execute = SetHalves;
    d.Fill(s, in, type, 2);
    return true;
  }
  d.Fail("this comparison is not built");
}

// Finds the comparison by the opcode's second word. The type is its last one.
void FindCompare(Decoder& d, const Statement& s, Instruction& in) {
  const Type type = LastType(d, s);
  for (const Row& row : kRows) {
    if (row.name != s.words.at(1)) continue;
    const bool floats = IsFloat(type);
    if ((floats && row.floats == nullptr) || (!floats && row.integers == nullptr)) break;
    const Compare compare = floats ? row.floats(type, s.Has("ftz")) : row.integers(type);
    if (compare == nullptr) break;
    in.immediate = reinterpret_cast<intptr_t>(compare);
    in.a = d.In(s.operands.at(1), type);
    in.b = d.In(s.operands.at(2), type);
    return;
  }
  d.Fail("this comparison is not built");
}

bool DecodeSetPredicate(Decoder& d, const Statement& s, Instruction& in) {
  FindCompare(d, s, in);
  const OperandSyntax& to = s.operands[0];
  if (to.kind == OperandSyntax::Kind::kPair) {
    in.d = d.Out(to.parts.at(0), Type::kPred);
    d.KeepList(in, {d.OutWide(to.parts.at(1), Type::kPred)});
  } else {
    in.d = d.Out(to, Type::kPred);
  }
  if (s.operands.size() == 4) {
    const Combine combine = s.Has("and") ? Combine::kAnd : s.Has("or") ? Combine::kOr : Combine::kXor;
    in.size = static_cast<uint8_t>(combine);
    in.c = d.InPredicate(s.operands[3], in.flip);
  }
  in.execute = SetPredicate;
  return true;
}

bool DecodeSet(Decoder& d, const Statement& s, Instruction& in) {
  if (s.operands.size() != 3 || s.words.size() < 4) d.Fail("this form is not built");
  const auto type = ParseType(s.words[s.words.size() - 2]);
  const Type from = LastType(d, s);
  if (type == from && IsFloat(from) && SizeOf(from) <= 4 && from != Type::kF32 && from != Type::kTF32) {
    return DecodeSetHalves(d, s, in, from);
  }
  FindCompare(d, s, in);
  if (!type || SizeOf(*type) != 4) d.Fail("this form is not built");
  in.flag = *type == Type::kF32;
  in.d = d.Out(s.operands[0], *type);
  in.execute = SetValue;
  return true;
}

template <typename T>
void Select(Warp& w, const Instruction& in, uint32_t lanes) {
  const T *a = w.In<T>(in.a), *b = w.In<T>(in.b);
  const uint32_t chosen = w.Predicate(in.c) ^ in.flip;
  alignas(64) T result[kLanes];
  for (int i = 0; i < kLanes; ++i) result[i] = (chosen >> i & 1) != 0 ? a[i] : b[i];
  Store(w.Out<T>(in.d), result, lanes);
}

bool DecodeSelect(Decoder& d, const Statement& s, Instruction& in) {
  const Type type = LastType(d, s);
  const size_t bytes = SizeOf(type);
  in.execute = bytes == 2 ? Select<uint16_t> : bytes == 4 ? Select<uint32_t> : Select<uint64_t>;
  in.d = d.Out(s.operands.at(0), type);
  in.a = d.In(s.operands.at(1), type);
  in.b = d.In(s.operands.at(2), type);
  in.c = d.InPredicate(s.operands.at(3), in.flip);
  return true;
}

template <typename C>
struct SelectBySign {
  template <typename T>
  T operator()(T a, T b, C c) const {
    return c >= C{0} ? a : b;
  }
};

bool DecodeSelectBySign(Decoder& d, const Statement& s, Instruction& in) {
  const auto type = ParseType(s.words.at(s.words.size() - 2));
  const Type by = LastType(d, s);
  if (!type || SizeOf(*type) < 4 || SizeOf(by) != 4) d.Fail("this form is not built");
  const bool wide = SizeOf(*type) == 8;
  if (by == Type::kF32) {
    in.execute = wide ? Map3<SelectBySign<float>, uint64_t, uint64_t, uint64_t, float>
                      : Map3<SelectBySign<float>, uint32_t, uint32_t, uint32_t, float>;
  } else {
    in.execute = wide ? Map3<SelectBySign<int32_t>, uint64_t, uint64_t, uint64_t, int32_t>
                      : Map3<SelectBySign<int32_t>, uint32_t, uint32_t, uint32_t, int32_t>;
  }
  in.d = d.Out(s.operands.at(0), *type);
  in.a = d.In(s.operands.at(1), *type);
  in.b = d.In(s.operands.at(2), *type);
  in.c = d.In(s.operands.at(3), by);
  return true;
}

}  // namespace

std::span<const Rule> CompareRules() {
  static constexpr Rule kRules[] = {
      {"setp", DecodeSetPredicate}, {"set", DecodeSet}, {"selp", DecodeSelect}, {"slct", DecodeSelectBySign}};
  return kRules;
}

}  // namespace ingot::standin::ptx
