// A decoder's operands: registers, constants, special registers and addresses.
#include <bit>
#include <iterator>

#include "standin/ptx/decoder.h"
#include "standin/ptx/windows.h"

namespace ingot::standin::ptx {
namespace {

// In the order of Special.
constexpr std::string_view kSpecials[] = {"%tid.x",
                                          "%tid.y",
                                          "%tid.z",
                                          "%ntid.x",
                                          "%ntid.y",
                                          "%ntid.z",
                                          "%ctaid.x",
                                          "%ctaid.y",
                                          "%ctaid.z",
                                          "%nctaid.x",
                                          "%nctaid.y",
                                          "%nctaid.z",
                                          "%laneid",
                                          "%warpid",
                                          "%nwarpid",
                                          "%smid",
                                          "%nsmid",
                                          "%lanemask_eq",
                                          "%lanemask_lt",
                                          "%lanemask_le",
                                          "%lanemask_gt",
                                          "%lanemask_ge",
                                          "%dynamic_smem_size",
                                          "%total_smem_size",
                                          "%gridid"};
static_assert(std::size(kSpecials) == static_cast<size_t>(Special::kCount));

}  // namespace

void Decoder::LayOutRegisters() {
  size_t at = std::max(program_.register_bytes, kSpecialBytes * static_cast<size_t>(Special::kCount));
  for (const Type type : function_.registers) {
    offsets_.push_back(at);
    at += type == Type::kPred ? 64 : std::max<size_t>(64, SizeOf(type) * kLanes);
  }
  program_.register_bytes = at;
}

Place Decoder::PlaceOf(const OperandSyntax& o) const {
  auto place = layout_.Find(o.name, statement_->scope);
  if (!place) Fail("\"" + std::string(o.name) + "\" is not declared");
  place->address += static_cast<uint64_t>(o.offset);
  return *place;
}

// A variable's name as a value is its address.
uint64_t Decoder::ValueOf(const OperandSyntax& o) const {
  const Place place = PlaceOf(o);
  if (place.of_call) Fail("addresses of a call's parameters are not built");
  return place.address;
}

uint64_t Decoder::Literal(const OperandSyntax& o, Type type) const {
  if (o.kind == OperandSyntax::Kind::kInteger) {
    if (type == Type::kF32) return std::bit_cast<uint32_t>(static_cast<float>(static_cast<int64_t>(o.bits)));
    if (type == Type::kF64) return std::bit_cast<uint64_t>(static_cast<double>(static_cast<int64_t>(o.bits)));
    return o.bits;
  }
  if (o.kind == OperandSyntax::Kind::kFloat32 && type == Type::kF64) {
    return std::bit_cast<uint64_t>(static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(o.bits))));
  }
  if (o.kind == OperandSyntax::Kind::kFloat64 && SizeOf(type) == 4) {
    return std::bit_cast<uint32_t>(static_cast<float>(std::bit_cast<double>(o.bits)));
  }
  return o.bits;
}

Slot Decoder::Broadcast(uint64_t bits, size_t bytes) {
  if (bytes < 8) bits &= (uint64_t{1} << (8 * bytes)) - 1;
  const auto [found, fresh] = constants_.try_emplace({bytes, bits});
  if (!fresh) return found->second;
  Constant& constant = program_.constants.emplace_back();
  auto* const to = reinterpret_cast<unsigned char*>(constant.values.data());
  for (int lane = 0; lane < kLanes; ++lane) {
    for (size_t i = 0; i < bytes; ++i) to[lane * bytes + i] = static_cast<unsigned char>(bits >> (8 * i));
  }
  found->second = {reinterpret_cast<uintptr_t>(to), 0};
  return found->second;
}

bool Decoder::FindSpecial(std::string_view name, Slot& slot) const {
  if (name == "WARP_SZ") return false;
  for (size_t i = 0; i < std::size(kSpecials); ++i) {
    if (kSpecials[i] != name) continue;
    slot = {i * kSpecialBytes, ~uintptr_t{0}};
    return true;
  }
  return false;
}

WideSlot Decoder::InWide(const OperandSyntax& o, Type type) {
  using Kind = OperandSyntax::Kind;
  WideSlot slot;
  slot.bytes = static_cast<uint8_t>(std::max<size_t>(2, SizeOf(type)));
  switch (o.kind) {
    case Kind::kRegister:
      slot.offset = offsets_[o.index];
      slot.mask = ~uintptr_t{0};
      slot.bytes = static_cast<uint8_t>(SizeOf(function_.registers[o.index]));
      return slot;
    case Kind::kInteger:
    case Kind::kFloat32:
    case Kind::kFloat64:
      static_cast<Slot&>(slot) = Broadcast(Literal(o, type), slot.bytes);
      return slot;
    case Kind::kName:
      if (o.name == "WARP_SZ") {
        static_cast<Slot&>(slot) = Broadcast(kLanes, slot.bytes);
      } else if (FindSpecial(o.name, slot)) {
        slot.bytes = 4;
      } else {
        static_cast<Slot&>(slot) = Broadcast(ValueOf(o), slot.bytes);
      }
      return slot;
    default:
      Fail("an operand is a vector or an address where a value is expected");
  }
}

Slot Decoder::In(const OperandSyntax& o, Type type) {
  const WideSlot slot = InWide(o, type);
  if (slot.bytes != std::max<size_t>(2, SizeOf(type))) Fail("a register has another width than the instruction");
  return slot;
}

WideSlot Decoder::OutWide(const OperandSyntax& o, Type type) {
  if (o.kind == OperandSyntax::Kind::kName && o.name == "_") {
    WideSlot slot;
    slot.bytes = static_cast<uint8_t>(std::max<size_t>(2, SizeOf(type)));
    static_cast<Slot&>(slot) = Scratch(slot.bytes);
    return slot;
  }
  if (o.kind != OperandSyntax::Kind::kRegister) Fail("the destination is not a register");
  return InWide(o, type);
}

Slot Decoder::Out(const OperandSyntax& o, Type type) {
  const WideSlot slot = OutWide(o, type);
  if (slot.bytes != std::max<size_t>(2, SizeOf(type))) Fail("a register has another width than the instruction");
  return slot;
}

Slot Decoder::InPredicate(const OperandSyntax& o, uint32_t& flip) {
  flip = o.negated ? kAllLanes : 0;
  if (o.kind == OperandSyntax::Kind::kInteger) return Broadcast(o.bits != 0 ? kAllLanes : 0, 4);
  if (o.kind != OperandSyntax::Kind::kRegister || function_.registers[o.index] != Type::kPred) {
    Fail("an operand is not a predicate");
  }
  return In(o, Type::kPred);
}

Slot Decoder::Scratch(size_t bytes_per_lane) {
  const Slot slot{program_.register_bytes, ~uintptr_t{0}};
  program_.register_bytes += std::max<size_t>(64, bytes_per_lane * kLanes);
  return slot;
}

void Decoder::Address(const OperandSyntax& o, Instruction& in) {
  if (o.kind != OperandSyntax::Kind::kAddress) Fail("expected an address");
  const OperandSyntax& base = o.parts[0];
  in.immediate = o.offset;
  if (base.kind == OperandSyntax::Kind::kRegister) {
    const WideSlot slot = InWide(base, Type::kB64);
    if (slot.bytes < 4) Fail("an address register has fewer than 32 bits");
    in.a = slot;
    in.flag = slot.bytes == 4;
  } else {
    if (base.kind == OperandSyntax::Kind::kInteger) {
      in.immediate += static_cast<int64_t>(base.bits);
    } else {
      const Place place = PlaceOf(base);
      if (place.of_call) in.space = Space::kLocal;
      in.immediate += static_cast<int64_t>(place.address + (in.space == Space::kGeneric ? WindowOf(place.space) : 0));
    }
    in.a = Broadcast(0, 8);
    in.flag = false;
  }
}

void Decoder::KeepList(Instruction& in, std::vector<WideSlot> list) {
  const std::vector<WideSlot>& kept = program_.lists.emplace_back(std::move(list));
  in.list = kept.data();
  in.count = static_cast<uint32_t>(kept.size());
}

void Decoder::Fill(const Statement& s, Instruction& in, Type type, int sources) {
  if (s.operands.size() != static_cast<size_t>(sources) + 1) Fail("it has another number of operands");
  Slot* const to[] = {&in.a, &in.b, &in.c};
  in.d = Out(s.operands[0], type);
  for (int i = 0; i < sources; ++i) *to[i] = In(s.operands[i + 1], type);
}

}  // namespace ingot::standin::ptx
