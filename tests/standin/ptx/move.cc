// mov, cvta, isspacep, createpolicy.
#include "standin/ptx/block.h"
#include "standin/ptx/decoder.h"
#include "standin/ptx/lanes.h"
#include "standin/ptx/windows.h"

namespace ingot::standin::ptx {
namespace {

struct Same {
  template <typename T>
  T operator()(T a) const {
    return a;
  }
};

void MovePredicate(Warp& w, const Instruction& in, uint32_t lanes) {
  w.SetPredicate(in.d, w.Predicate(in.a) ^ in.flip, lanes);
}

// From one register to the parts of a list, or back. in.size is the bytes of a part.
template <typename Part, typename Whole>
void Unpack(Warp& w, const Instruction& in, uint32_t lanes) {
  const Whole* const from = w.In<Whole>(in.a);
  for (uint32_t part = 0; part < in.count; ++part) {
    Part result[kLanes];
    for (int i = 0; i < kLanes; ++i) result[i] = static_cast<Part>(from[i] >> (8 * sizeof(Part) * part));
    Store(w.Out<Part>(in.list[part]), result, lanes);
  }
}

template <typename Part, typename Whole>
void Pack(Warp& w, const Instruction& in, uint32_t lanes) {
  alignas(64) Whole result[kLanes] = {};
  for (uint32_t part = 0; part < in.count; ++part) {
    const Part* const from = w.In<Part>(in.list[part]);
    for (int i = 0; i < kLanes; ++i) result[i] |= static_cast<Whole>(from[i]) << (8 * sizeof(Part) * part);
  }
  Store(w.Out<Whole>(in.d), result, lanes);
}

struct PackRow {
  size_t part, whole;  // bytes
  Execute unpack, pack;
};

constexpr PackRow kPacks[] = {{2, 4, Unpack<uint16_t, uint32_t>, Pack<uint16_t, uint32_t>},
                              {2, 8, Unpack<uint16_t, uint64_t>, Pack<uint16_t, uint64_t>},
                              {4, 8, Unpack<uint32_t, uint64_t>, Pack<uint32_t, uint64_t>}};

const PackRow& FindPack(const Decoder& d, size_t whole, size_t count) {
  for (const PackRow& row : kPacks) {
    if (row.whole == whole && row.part * count == whole) return row;
  }
  d.Fail("a vector of this shape is not built");
}

bool DecodeVector(Decoder& d, const Statement& s, Instruction& in, Type type) {
  const bool unpack = s.operands[0].kind == OperandSyntax::Kind::kVector;
  const OperandSyntax& vector = s.operands[unpack ? 0 : 1];
  const PackRow& row = FindPack(d, SizeOf(type), vector.parts.size());
  const Type part = row.part == 2 ? Type::kB16 : Type::kB32;
  std::vector<WideSlot> list;
  for (const OperandSyntax& o : vector.parts) {
    list.push_back(unpack ? d.OutWide(o, part) : d.InWide(o, part));
    if (list.back().bytes != row.part) d.Fail("a part of the vector has another width");
  }
  d.KeepList(in, std::move(list));
  if (unpack)
    in.a = d.In(s.operands[1], type);
  else
    in.d = d.Out(s.operands[0], type);
  in.execute = unpack ? row.unpack : row.pack;
  return true;
}

// Clocks count the warp's instructions: they never stand still and repeat exactly. in.immediate: bits to shift.
template <typename T>
void ReadClock(Warp& w, const Instruction& in, uint32_t lanes) {
  const auto now = static_cast<T>(w.instructions() >> in.immediate);
  T* const to = w.Out<T>(in.d);
  ForLanes(lanes, [&](int lane) { to[lane] = now; });
}

struct ClockRow {
  std::string_view name;
  size_t bytes;
  int64_t shift;
};

constexpr ClockRow kClocks[] = {{"%clock", 4, 0},       {"%clock_hi", 4, 32},      {"%clock64", 8, 0},
                                {"%globaltimer", 8, 0}, {"%globaltimer_lo", 4, 0}, {"%globaltimer_hi", 4, 32}};

bool DecodeClock(Decoder& d, const Statement& s, Instruction& in, Type type) {
  for (const ClockRow& row : kClocks) {
    if (s.operands[1].kind != OperandSyntax::Kind::kName || row.name != s.operands[1].name) continue;
    if (row.bytes != SizeOf(type)) d.Fail("a clock has another width");
    in.d = d.Out(s.operands[0], type);
    in.immediate = row.shift;
    in.execute = row.bytes == 4 ? ReadClock<uint32_t> : ReadClock<uint64_t>;
    return true;
  }
  return false;
}

// createpolicy.fractional: caches are not modeled, so every policy is the same.
bool DecodePolicy(Decoder& d, const Statement& s, Instruction& in) {
  if (!s.Has("fractional")) d.Fail("only fractional policies are built");
  in.d = d.Out(s.operands.at(0), Type::kB64);
  in.a = d.Zeros();
  in.execute = Map1<Same, uint64_t, uint64_t>;
  return true;
}

bool DecodeMove(Decoder& d, const Statement& s, Instruction& in) {
  const Type type = LastType(d, s);
  if (s.operands.size() != 2) d.Fail("expected two operands");
  if (type == Type::kPred) {
    in.d = d.Out(s.operands[0], type);
    in.a = d.InPredicate(s.operands[1], in.flip);
    in.execute = MovePredicate;
    return true;
  }
  for (const OperandSyntax& o : s.operands) {
    if (o.kind == OperandSyntax::Kind::kVector) return DecodeVector(d, s, in, type);
  }
  if (DecodeClock(d, s, in, type)) return true;
  const size_t bytes = SizeOf(type);
  in.execute = bytes == 2   ? Map1<Same, uint16_t, uint16_t>
               : bytes == 4 ? Map1<Same, uint32_t, uint32_t>
                            : Map1<Same, uint64_t, uint64_t>;
  d.Fill(s, in, type, 1);
  return true;
}

template <typename T>
void AddWindow(Warp& w, const Instruction& in, uint32_t lanes) {
  const T* const a = w.In<T>(in.a);
  T result[kLanes];
  for (int i = 0; i < kLanes; ++i) result[i] = a[i] + static_cast<T>(in.immediate);
  Store(w.Out<T>(in.d), result, lanes);
}

// cvta.space d, a: to a generic address; cvta.to.space: from one.
bool DecodeWindow(Decoder& d, const Statement& s, Instruction& in) {
  const Type type = LastType(d, s);
  const bool from_generic = s.Has("to");
  const auto space = ParseSpace(s.words.at(from_generic ? 2 : 1));
  if (!space) d.Fail("expected a state space");
  if (SizeOf(type) != 8) d.Fail("generic addresses have 64 bits");
  in.immediate = static_cast<int64_t>(from_generic ? -WindowOf(*space) : WindowOf(*space));
  in.execute = AddWindow<uint64_t>;
  d.Fill(s, in, type, 1);
  return true;
}

void IsInSpace(Warp& w, const Instruction& in, uint32_t lanes) {
  const uint64_t* const a = w.In<uint64_t>(in.a);
  uint32_t bits = 0;
  for (int i = 0; i < kLanes; ++i) bits |= static_cast<uint32_t>(SpaceOf(a[i]) == in.space) << i;
  w.SetPredicate(in.d, bits, lanes);
}

bool DecodeIsInSpace(Decoder& d, const Statement& s, Instruction& in) {
  const auto space = ParseSpace(s.words.at(1));
  if (!space) d.Fail("expected a state space");
  in.space = *space;
  in.execute = IsInSpace;
  in.d = d.Out(s.operands.at(0), Type::kPred);
  in.a = d.In(s.operands.at(1), Type::kB64);
  return true;
}

}  // namespace

std::span<const Rule> MoveRules() {
  static constexpr Rule kRules[] = {
      {"mov", DecodeMove}, {"cvta", DecodeWindow}, {"isspacep", DecodeIsInSpace}, {"createpolicy", DecodePolicy}};
  return kRules;
}

}  // namespace ingot::standin::ptx
