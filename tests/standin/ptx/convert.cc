// cvt: between integers and floating-point formats. A value passes through the widest type of its kind, int64 or double, in which all but
// u64 are exact; u64 keeps its bits.
#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <limits>

#include "standin/ptx/decoder.h"
#include "standin/ptx/float.h"
#include "standin/ptx/half.h"
#include "standin/ptx/lanes.h"

namespace ingot::standin::ptx {
namespace {

union Wide {
  int64_t integer;
  double real;
};

using Read = void (*)(const void* from, Wide* to);
using Write = void (*)(const Wide* from, void* to, uint32_t lanes);

// Reads the low bits of a register as T.
template <typename T, typename Register>
void ReadInteger(const void* from, Wide* to) {
  for (int i = 0; i < kLanes; ++i) {
    to[i].integer = static_cast<int64_t>(static_cast<T>(static_cast<const Register*>(from)[i]));
  }
}

template <typename T, typename Register>
void WriteInteger(const Wide* from, void* to, uint32_t lanes) {
  alignas(64) Register result[kLanes];
  for (int i = 0; i < kLanes; ++i) result[i] = static_cast<Register>(static_cast<T>(from[i].integer));
  Store(static_cast<Register*>(to), result, lanes);
}

struct IntegerRow {
  Type type;
  Read read[3];  // from registers of 16, 32 and 64 bits
  Write write[3];
};

template <typename T>
constexpr IntegerRow Row(Type type) {
  return {type,
          {ReadInteger<T, uint16_t>, ReadInteger<T, uint32_t>, ReadInteger<T, uint64_t>},
          {WriteInteger<T, uint16_t>, WriteInteger<T, uint32_t>, WriteInteger<T, uint64_t>}};
}

constexpr IntegerRow kIntegers[] = {
    Row<uint8_t>(Type::kU8), Row<uint16_t>(Type::kU16), Row<uint32_t>(Type::kU32), Row<uint64_t>(Type::kU64),
    Row<int8_t>(Type::kS8),  Row<int16_t>(Type::kS16),  Row<int32_t>(Type::kS32),  Row<int64_t>(Type::kS64),
    Row<uint8_t>(Type::kB8), Row<uint16_t>(Type::kB16), Row<uint32_t>(Type::kB32), Row<uint64_t>(Type::kB64),
};

size_t WidthIndex(size_t bytes) { return bytes == 2 ? 0 : bytes == 4 ? 1 : 2; }

const IntegerRow& FindInteger(const Decoder& d, Type type) {
  for (const IntegerRow& row : kIntegers) {
    if (row.type == type) return row;
  }
  d.Fail("this conversion is not built");
}

enum class Whole : uint8_t { kNo, kNearestEven, kZero, kDown, kUp };

// How a conversion rounds. Lives as long as its instruction, in the instruction's immediate.
struct Mode {
  Type to, from;
  Rounding rounding;
  Whole whole;
  bool ftz, sat, relu;
};

Mode ModeOf(const Instruction& in) {
  Mode mode;
  std::memcpy(&mode, &in.immediate, sizeof(mode));
  return mode;
}

double ToWhole(double x, Whole whole) {
  switch (whole) {
    case Whole::kNearestEven:
      return std::nearbyint(x);
    case Whole::kZero:
      return std::trunc(x);
    case Whole::kDown:
      return std::floor(x);
    case Whole::kUp:
      return std::ceil(x);
    default:
      return x;
  }
}

double ReadReal(const void* from, int lane, const Mode& mode) {
  switch (mode.from) {
    case Type::kF32: {
      const float x = static_cast<const float*>(from)[lane];
      return mode.ftz ? Flush(x) : x;
    }
    case Type::kF16:
      return Half::ToFloat(static_cast<const uint16_t*>(from)[lane]);
    case Type::kBF16:
      return Bfloat::ToFloat(static_cast<const uint16_t*>(from)[lane]);
    default:
      return static_cast<const double*>(from)[lane];
  }
}

// fp64 to fp32 in a mode other than to nearest.
uint32_t RoundToSingle(double x, Rounding rounding) {
  const float nearest = static_cast<float>(x);
  if (x != x) return kNan32;
  if (rounding == Rounding::kNearestEven || nearest == x) return std::bit_cast<uint32_t>(nearest);
  const bool up = rounding == Rounding::kUp || (rounding == Rounding::kZero && x < 0);
  const float limit = up ? std::numeric_limits<float>::infinity() : -std::numeric_limits<float>::infinity();
  const bool wrong = up ? nearest < x : nearest > x;
  return std::bit_cast<uint32_t>(wrong ? std::nextafterf(nearest, limit) : nearest);
}

void WriteReal(void* to, int lane, double x, const Mode& mode) {
  if (mode.sat) x = x > 0 ? std::min(x, 1.0) : 0;
  if (mode.relu && x < 0) x = 0;
  switch (mode.to) {
    case Type::kF32: {
      const float y = std::bit_cast<float>(RoundToSingle(x, mode.rounding));
      static_cast<float*>(to)[lane] = mode.ftz ? Flush(y) : y;
      return;
    }
    case Type::kTF32:
      static_cast<uint32_t*>(to)[lane] = ToTf32(x, mode.rounding);
      return;
    case Type::kF16:
      static_cast<uint16_t*>(to)[lane] = Half::From(x, mode.rounding);
      return;
    case Type::kBF16:
      static_cast<uint16_t*>(to)[lane] = Bfloat::From(x, mode.rounding);
      return;
    default:
      static_cast<double*>(to)[lane] = x;
  }
}

void RealToReal(Warp& w, const Instruction& in, uint32_t lanes) {
  const Mode mode = ModeOf(in);
  const void* const from = w.In<void>(in.a);
  ForLanes(lanes, [&](int lane) {
    WriteReal(w.Out<void>(in.d), lane, ToWhole(ReadReal(from, lane, mode), mode.whole), mode);
  });
}

// Two to one register: the first source is the upper half.
void PackReals(Warp& w, const Instruction& in, uint32_t lanes) {
  Mode mode = ModeOf(in);
  mode.to = mode.to == Type::kF16x2 ? Type::kF16 : Type::kBF16;
  uint16_t* const to = w.Out<uint16_t>(in.d);
  ForLanes(lanes, [&](int lane) {
    WriteReal(to, 2 * lane + 1, ReadReal(w.In<void>(in.a), lane, mode), mode);
    WriteReal(to, 2 * lane, ReadReal(w.In<void>(in.b), lane, mode), mode);
  });
}

struct Range {
  double least, above;  // values from `least` to below `above`
  int64_t low, high;    // what smaller and greater ones become
};

Range RangeOf(Type type) {
  const int bits = static_cast<int>(8 * SizeOf(type));
  const bool is_signed = IsSigned(type);
  if (bits == 64) {
    return is_signed ? Range{-0x1p63, 0x1p63, INT64_MIN, INT64_MAX} : Range{0, 0x1p64, 0, -1};
  }
  const int64_t high = (int64_t{1} << (is_signed ? bits - 1 : bits)) - 1, low = is_signed ? -high - 1 : 0;
  return {static_cast<double>(low), static_cast<double>(high) + 1, low, high};
}

// Not a number becomes 0, or for 64 bits the sign bit.
int64_t Clamp(double x, Type type) {
  const Range range = RangeOf(type);
  if (x != x) return SizeOf(type) == 8 ? INT64_MIN : 0;
  if (x < range.least) return range.low;
  if (x >= range.above) return range.high;
  return type == Type::kU64 ? static_cast<int64_t>(static_cast<uint64_t>(x)) : static_cast<int64_t>(x);
}

void RealToInteger(Warp& w, const Instruction& in, uint32_t lanes) {
  const Mode mode = ModeOf(in);
  const void* const from = w.In<void>(in.a);
  Wide values[kLanes] = {};
  ForLanes(lanes,
           [&](int lane) { values[lane].integer = Clamp(ToWhole(ReadReal(from, lane, mode), mode.whole), mode.to); });
  kIntegers[in.target].write[in.size](values, w.Out<void>(in.d), lanes);
}

// Integers beyond 2^53 are rounded once: fp32 and the halves through an odd-rounded double.
double OddRounded(int64_t bits, bool is_signed) {
  const bool negative = is_signed && bits < 0;
  uint64_t magnitude = negative ? -static_cast<uint64_t>(bits) : static_cast<uint64_t>(bits);
  if (magnitude >> 53 != 0) {
    const int shift = 64 - 53 - std::countl_zero(magnitude);
    const uint64_t rest = magnitude & ((uint64_t{1} << shift) - 1);
    magnitude = (magnitude & ~((uint64_t{1} << shift) - 1)) | (rest != 0 ? uint64_t{1} << shift : 0);
  }
  const auto value = static_cast<double>(magnitude);
  return negative ? -value : value;
}

void IntegerToReal(Warp& w, const Instruction& in, uint32_t lanes) {
  const Mode mode = ModeOf(in);
  Wide values[kLanes];
  kIntegers[in.target].read[in.size](w.In<void>(in.a), values);
  void* const to = w.Out<void>(in.d);
  ForLanes(lanes, [&](int lane) {
    const int64_t x = values[lane].integer;
    if (mode.to == Type::kF64) {
      static_cast<double*>(to)[lane] =
          mode.from == Type::kU64 ? static_cast<double>(static_cast<uint64_t>(x)) : static_cast<double>(x);
      return;
    }
    WriteReal(to, lane, OddRounded(x, mode.from != Type::kU64), mode);
  });
}

void IntegerToInteger(Warp& w, const Instruction& in, uint32_t lanes) {
  Wide values[kLanes];
  kIntegers[in.target].read[in.size](w.In<void>(in.a), values);
  kIntegers[in.count].write[static_cast<size_t>(in.space)](values, w.Out<void>(in.d), lanes);
}

void SaturateInteger(Warp& w, const Instruction& in, uint32_t lanes) {
  const Mode mode = ModeOf(in);
  const Range range = RangeOf(mode.to);
  Wide values[kLanes];
  kIntegers[in.target].read[in.size](w.In<void>(in.a), values);
  for (Wide& v : values) {
    const bool big = mode.from == Type::kU64 && v.integer < 0;
    if (big || (range.high >= 0 && v.integer > range.high))
      v.integer = range.high;
    else if (v.integer < range.low)
      v.integer = range.low;
  }
  kIntegers[in.count].write[static_cast<size_t>(in.space)](values, w.Out<void>(in.d), lanes);
}

struct ModeRow {
  std::string_view word;
  Rounding rounding;
  Whole whole;
};

constexpr ModeRow kModes[] = {
    {"rn", Rounding::kNearestEven, Whole::kNo},    {"rz", Rounding::kZero, Whole::kNo},
    {"rm", Rounding::kDown, Whole::kNo},           {"rp", Rounding::kUp, Whole::kNo},
    {"rna", Rounding::kNearestAway, Whole::kNo},   {"rni", Rounding::kNearestEven, Whole::kNearestEven},
    {"rzi", Rounding::kNearestEven, Whole::kZero}, {"rmi", Rounding::kNearestEven, Whole::kDown},
    {"rpi", Rounding::kNearestEven, Whole::kUp},
};

bool IsReal(Type type) {
  return type == Type::kF16 || type == Type::kBF16 || type == Type::kF32 || type == Type::kF64 || type == Type::kTF32;
}

void DecodeInteger(Decoder& d, const Statement& s, Instruction& in, const Mode& mode) {
  const bool from_real = IsReal(mode.from), to_real = IsReal(mode.to);
  const WideSlot a = d.InWide(s.operands[1], mode.from), to = d.OutWide(s.operands[0], mode.to);
  in.a = a;
  in.d = to;
  const auto from_row = static_cast<uint32_t>(from_real ? 0 : &FindInteger(d, mode.from) - kIntegers);
  const auto to_row = static_cast<uint32_t>(to_real ? 0 : &FindInteger(d, mode.to) - kIntegers);
  in.target = from_real ? to_row : from_row;
  in.size = static_cast<uint8_t>(WidthIndex(from_real ? to.bytes : a.bytes));
  in.count = to_row;
  in.space = static_cast<Space>(WidthIndex(to.bytes));
  in.execute = from_real ? RealToInteger : to_real ? IntegerToReal : mode.sat ? SaturateInteger : IntegerToInteger;
}

bool DecodeConvert(Decoder& d, const Statement& s, Instruction& in) {
  const Type from = LastType(d, s);
  const auto to = ParseType(s.words.at(s.words.size() - 2));
  if (!to || s.operands.size() < 2) d.Fail("expected two types");
  Mode mode{*to, from, Rounding::kNearestEven, Whole::kNo, s.Has("ftz"), s.Has("sat"), s.Has("relu")};
  for (const ModeRow& row : kModes) {
    if (s.Has(row.word)) mode.rounding = row.rounding, mode.whole = row.whole;
  }
  if (s.Has("satfinite")) d.Fail("satfinite is not built");
  static_assert(sizeof(mode) <= sizeof(in.immediate));
  std::memcpy(&in.immediate, &mode, sizeof(mode));
  if (*to == Type::kF16x2 || *to == Type::kBF16x2) {
    if (from != Type::kF32) d.Fail("this conversion is not built");
    in.execute = PackReals;
    in.d = d.Out(s.operands[0], *to);
    in.a = d.In(s.operands[1], from);
    in.b = d.In(s.operands.at(2), from);
  } else if (IsReal(from) && IsReal(*to)) {
    in.execute = RealToReal;
    in.d = d.Out(s.operands[0], *to);
    in.a = d.In(s.operands[1], from);
  } else {
    DecodeInteger(d, s, in, mode);
  }
  return true;
}

}  // namespace

std::span<const Rule> ConvertRules() {
  static constexpr Rule kRules[] = {{"cvt", DecodeConvert}};
  return kRules;
}

}  // namespace ingot::standin::ptx
