// Bit operations: logic, shifts, bfe, popc, clz, brev, bfind. permute.cc has those that pick bits of several operands.
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

}  // namespace

std::span<const Rule> BitRules() {
  static constexpr Rule kRules[] = {{"and", Logic<And>},          {"or", Logic<Or>},
                                    {"xor", Logic<Xor>},          {"not", DecodeNot},
                                    {"shl", Shift<ShiftLeft>},    {"shr", Shift<ShiftRight>},
                                    {"popc", Count<CountOnes>},   {"clz", Count<CountLeadingZeros>},
                                    {"cnot", DecodeLogicalNot},   {"brev", DecodeReverse},
                                    {"bfind", DecodeFindLeading}, {"bfe", DecodeExtract}};
  return kRules;
}

}  // namespace ingot::standin::ptx
