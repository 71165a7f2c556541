// ld, st and their relatives.
#include <algorithm>

#include "standin/ptx/access.h"
#include "standin/ptx/decoder.h"
#include "standin/ptx/lanes.h"

namespace ingot::standin::ptx {
namespace {

// One element of a vector: T in memory, in a register that may be wider.
template <typename T, typename Register>
void LoadElement(Warp& w, Slot to, const Places& p, uint32_t lanes, size_t offset) {
  Register* const registers = w.Out<Register>(to);
  ForLanes(lanes, [&](int lane) {
    T value;
    std::memcpy(&value, p.at[lane] + offset, sizeof(T));
    registers[lane] = static_cast<Register>(value);
  });
}

template <typename T, typename Register>
void StoreElement(const Warp& w, Slot from, const Places& p, uint32_t lanes, size_t offset) {
  const Register* const registers = w.In<Register>(from);
  ForLanes(lanes, [&](int lane) {
    const auto value = static_cast<T>(registers[lane]);
    std::memcpy(p.at[lane] + offset, &value, sizeof(T));
  });
}

using LoadOne = void (*)(Warp& w, Slot to, const Places& p, uint32_t lanes, size_t offset);
using StoreOne = void (*)(const Warp& w, Slot from, const Places& p, uint32_t lanes, size_t offset);

struct Row {
  size_t bytes;
  bool is_signed;
  LoadOne load[3];  // to registers of 16, 32 and 64 bits
  StoreOne store[3];
};

template <typename T>
constexpr Row RowOf() {
  return {sizeof(T),
          std::is_signed_v<T>,
          {LoadElement<T, uint16_t>, LoadElement<T, uint32_t>, LoadElement<T, uint64_t>},
          {StoreElement<T, uint16_t>, StoreElement<T, uint32_t>, StoreElement<T, uint64_t>}};
}

constexpr Row kRows[] = {RowOf<uint8_t>(),  RowOf<int8_t>(),  RowOf<uint16_t>(), RowOf<int16_t>(),
                         RowOf<uint32_t>(), RowOf<int32_t>(), RowOf<uint64_t>()};

uint32_t FindRow(const Decoder& d, Type type) {
  const bool sign = IsSigned(type) && !IsFloat(type) && SizeOf(type) < 8;
  for (size_t i = 0; i < std::size(kRows); ++i) {
    if (kRows[i].bytes == SizeOf(type) && kRows[i].is_signed == sign) return static_cast<uint32_t>(i);
  }
  d.Fail("elements of this type are not built");
}

size_t WidthIndex(size_t bytes) { return bytes == 2 ? 0 : bytes == 4 ? 1 : 2; }

void Load(Warp& w, const Instruction& in, uint32_t lanes) {
  Places p;
  Addresses(w, in, lanes, p.addresses);
  const Row& row = kRows[in.target];
  lanes = Locate(w, {AccessKind::kRead, in.space, in.size, false, false}, lanes, p);
  for (uint32_t i = 0; i < in.count; ++i)
    row.load[WidthIndex(in.list[i].bytes)](w, in.list[i], p, lanes, i * row.bytes);
}

void StoreAll(Warp& w, const Instruction& in, uint32_t lanes) {
  Places p;
  Addresses(w, in, lanes, p.addresses);
  const Row& row = kRows[in.target];
  lanes = Locate(w, {AccessKind::kWrite, in.space, in.size, false, true}, lanes, p);
  for (uint32_t i = 0; i < in.count; ++i)
    row.store[WidthIndex(in.list[i].bytes)](w, in.list[i], p, lanes, i * row.bytes);
}

Space FindSpace(const Statement& s) {
  for (size_t i = 1; i < s.words.size(); ++i) {
    if (const auto space = ParseSpace(s.words[i])) return *space;
  }
  return Space::kGeneric;
}

template <bool kLoad>
bool Decode(Decoder& d, const Statement& s, Instruction& in) {
  const Type type = LastType(d, s);
  if (s.operands.size() < 2) d.Fail("expected two operands");
  const OperandSyntax& value = s.operands[kLoad ? 0 : 1];
  in.space = FindSpace(s);
  d.Address(s.operands[kLoad ? 1 : 0], in);
  std::vector<WideSlot> list;
  const auto add = [&](const OperandSyntax& o) { list.push_back(kLoad ? d.OutWide(o, type) : d.InWide(o, type)); };
  if (value.kind == OperandSyntax::Kind::kVector) {
    for (const OperandSyntax& o : value.parts) add(o);
  } else {
    add(value);
  }
  const size_t bytes = SizeOf(type) * list.size();
  if (bytes > 16 || (bytes & (bytes - 1)) != 0) d.Fail("a vector of this size is not built");
  for (const WideSlot& slot : list) {
    if (slot.bytes < SizeOf(type)) d.Fail("a register is narrower than the type");
  }
  in.size = static_cast<uint8_t>(bytes);
  in.target = FindRow(d, type);
  in.execute = kLoad ? Load : StoreAll;
  d.KeepList(in, std::move(list));
  return true;
}

void Nothing(Warp&, const Instruction&, uint32_t) {}

bool DecodeNothing(Decoder&, const Statement&, Instruction& in) {
  in.execute = Nothing;
  return true;
}

}  // namespace

std::span<const Rule> MemoryRules() {
  static constexpr Rule kRules[] = {{"ld", Decode<true>},
                                    {"ldu", Decode<true>},
                                    {"st", Decode<false>},
                                    {"prefetch", DecodeNothing},
                                    {"prefetchu", DecodeNothing},
                                    {"discard", DecodeNothing},
                                    {"applypriority", DecodeNothing}};
  return kRules;
}

}  // namespace ingot::standin::ptx
