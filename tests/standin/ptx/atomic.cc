// atom and red, over global and shared memory. Blocks run one after the other, so that every operation is atomic by itself.
#include <algorithm>
#include <bit>

#include "standin/ptx/access.h"
#include "standin/ptx/decoder.h"
#include "standin/ptx/float.h"
#include "standin/ptx/half.h"
#include "standin/ptx/lanes.h"

namespace ingot::standin::ptx {
namespace {

// The new value of memory from the old one and the operands.
using Apply = uint64_t (*)(uint64_t old, uint64_t b, uint64_t c);

template <typename T>
T As(uint64_t bits) {
  T value;
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}

template <typename T>
uint64_t BitsOf(T value) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  return bits;
}

template <typename T, typename F>
uint64_t With(uint64_t old, uint64_t b, uint64_t) {
  return BitsOf<T>(F()(As<T>(old), As<T>(b)));
}

struct Add {
  template <typename T>
  T operator()(T a, T b) const {
    return Canonical(a + b);
  }
  uint32_t operator()(uint32_t a, uint32_t b) const { return a + b; }
  uint64_t operator()(uint64_t a, uint64_t b) const { return a + b; }
};
struct Min {
  template <typename T>
  T operator()(T a, T b) const {
    return std::min(a, b);
  }
};
struct Max {
  template <typename T>
  T operator()(T a, T b) const {
    return std::max(a, b);
  }
};
struct And {
  uint64_t operator()(uint64_t a, uint64_t b) const { return a & b; }
};
struct Or {
  uint64_t operator()(uint64_t a, uint64_t b) const { return a | b; }
};
struct Xor {
  uint64_t operator()(uint64_t a, uint64_t b) const { return a ^ b; }
};
struct Increment {
  uint32_t operator()(uint32_t a, uint32_t b) const { return a >= b ? 0 : a + 1; }
};
struct Decrement {
  uint32_t operator()(uint32_t a, uint32_t b) const { return a == 0 || a > b ? b : a - 1; }
};

template <typename Format>
uint64_t AddHalf(uint64_t old, uint64_t b, uint64_t) {
  return Format::From(double{Format::ToFloat(As<uint16_t>(old))} + Format::ToFloat(As<uint16_t>(b)));
}
template <typename Format>
uint64_t AddHalves(uint64_t old, uint64_t b, uint64_t) {
  return AddHalf<Format>(old, b, 0) | AddHalf<Format>(old >> 16, b >> 16, 0) << 16;
}

uint64_t Exchange(uint64_t, uint64_t b, uint64_t) { return b; }
uint64_t CompareExchange(uint64_t old, uint64_t b, uint64_t c) { return old == b ? c : old; }

struct Row {
  std::string_view name;
  Type type;
  Apply apply;
};

constexpr Row kRows[] = {
    {"add", Type::kU32, With<uint32_t, Add>},
    {"add", Type::kS32, With<uint32_t, Add>},
    {"add", Type::kU64, With<uint64_t, Add>},
    {"add", Type::kS64, With<uint64_t, Add>},
    {"add", Type::kF32, With<float, Add>},
    {"add", Type::kF64, With<double, Add>},
    {"add", Type::kF16, AddHalf<Half>},
    {"add", Type::kBF16, AddHalf<Bfloat>},
    {"add", Type::kF16x2, AddHalves<Half>},
    {"add", Type::kBF16x2, AddHalves<Bfloat>},
    {"min", Type::kU32, With<uint32_t, Min>},
    {"min", Type::kS32, With<int32_t, Min>},
    {"min", Type::kU64, With<uint64_t, Min>},
    {"min", Type::kS64, With<int64_t, Min>},
    {"max", Type::kU32, With<uint32_t, Max>},
    {"max", Type::kS32, With<int32_t, Max>},
    {"max", Type::kU64, With<uint64_t, Max>},
    {"max", Type::kS64, With<int64_t, Max>},
    {"and", Type::kB32, With<uint64_t, And>},
    {"and", Type::kB64, With<uint64_t, And>},
    {"or", Type::kB32, With<uint64_t, Or>},
    {"or", Type::kB64, With<uint64_t, Or>},
    {"xor", Type::kB32, With<uint64_t, Xor>},
    {"xor", Type::kB64, With<uint64_t, Xor>},
    {"inc", Type::kU32, With<uint32_t, Increment>},
    {"dec", Type::kU32, With<uint32_t, Decrement>},
    {"exch", Type::kB32, Exchange},
    {"exch", Type::kB64, Exchange},
    {"cas", Type::kB16, CompareExchange},
    {"cas", Type::kB32, CompareExchange},
    {"cas", Type::kB64, CompareExchange},
};

uint64_t ReadLane(const Warp& w, WideSlot slot, int lane) {
  uint64_t bits = 0;
  std::memcpy(&bits, w.In<std::byte>(slot) + lane * slot.bytes, slot.bytes);
  return bits;
}

// The list has the operands, and after them the destination of atom (in.count = in.target + 1).
void Run(Warp& w, const Instruction& in, uint32_t lanes) {
  Places p;
  Addresses(w, in, lanes, p.addresses);
  lanes = Locate(w, {AccessKind::kAtomic, in.space, in.size, false, false}, lanes, p);
  const Row& row = kRows[in.target];
  const size_t bytes = SizeOf(row.type);
  const bool compares = row.apply == CompareExchange;
  ForLanes(lanes, [&](int lane) {
    uint64_t old = 0;
    std::memcpy(&old, p.at[lane], bytes);
    const uint64_t fresh = row.apply(old, ReadLane(w, in.list[0], lane), compares ? ReadLane(w, in.list[1], lane) : 0);
    std::memcpy(p.at[lane], &fresh, bytes);
    if (in.size != 0 && in.count > (compares ? 2u : 1u)) {
      std::memcpy(w.Out<std::byte>(in.list[in.count - 1]) + lane * bytes, &old, bytes);
    }
  });
}

// atom{.order}{.scope}{.space}.op.type d, [a], b{, c}; red without d
template <bool kReturns>
bool Decode(Decoder& d, const Statement& s, Instruction& in) {
  const Type type = LastType(d, s);
  for (size_t i = 0; i < std::size(kRows); ++i) {
    const Row& row = kRows[i];
    if (row.type != type || !s.Has(row.name)) continue;
    size_t at = kReturns ? 1 : 0;
    in.target = static_cast<uint32_t>(i);
    in.size = static_cast<uint8_t>(SizeOf(type));
    for (const std::string_view word : s.words) {
      if (const auto space = ParseSpace(word)) in.space = *space;
    }
    d.Address(s.operands.at(at++), in);
    std::vector<WideSlot> list;
    for (; at < s.operands.size(); ++at) {
      list.push_back(d.InWide(s.operands[at], type));
      if (list.back().bytes != SizeOf(type)) d.Fail("a register has another width than the instruction");
    }
    if (list.size() != (row.apply == CompareExchange ? 2 : 1)) d.Fail("it has another number of operands");
    if (kReturns) list.push_back(d.OutWide(s.operands[0], type));
    d.KeepList(in, std::move(list));
    in.execute = Run;
    return true;
  }
  return false;
}

}  // namespace

std::span<const Rule> AtomicRules() {
  static constexpr Rule kRules[] = {{"atom", Decode<true>}, {"red", Decode<false>}};
  return kRules;
}

}  // namespace ingot::standin::ptx
