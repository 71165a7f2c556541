#include "standin/ptx/decoder.h"

#include <bit>
#include <iterator>
#include <stdexcept>

#include "standin/ptx/block.h"
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

constexpr std::span<const Rule> (*kGroups[])() = {
    ArithmeticRules, BitRules,    PermuteRules, FloatRules,      HalfRules,    CompareRules, ConvertRules, MoveRules,
    MemoryRules,     AtomicRules, ControlRules, CollectiveRules, BarrierRules, CopyRules,    MatrixRules};

[[noreturn]] void ThrowNotBuilt(Warp& w, const Instruction& in, uint32_t) {
  throw Error(w.block().launch().program.errors[in.target]);
}

size_t RoundUp(size_t value, size_t to) { return (value + to - 1) / to * to; }

}  // namespace

Decoder::Decoder(const FunctionSyntax& function, const Symbols& symbols, Program& program)
    : function_(function), symbols_(symbols), program_(program) {
  program.source = &function;
}

void Decoder::Decode() {
  LayOutRegisters();
  LayOutParameters();
  LayOutVariables();
  program_.code.resize(function_.statements.size() + 1);
  for (size_t i = 0; i < function_.statements.size(); ++i) {
    Instruction& in = program_.code[i];
    in.statement = static_cast<uint32_t>(i);
    TryDecode(function_.statements[i], in);
  }
  static constexpr std::string_view kExit[] = {"exit"};
  static const Statement end{.line = function_.line,
                             .text = "exit",
                             .words = {std::begin(kExit), std::end(kExit)},
                             .operands = {},
                             .guard = {}};
  DecodeStatement(end, program_.code.back());
  program_.code.back().statement =
      static_cast<uint32_t>(function_.statements.empty() ? 0 : function_.statements.size() - 1);
}

void Decoder::TryDecode(const Statement& s, Instruction& in) {
  try {
    DecodeStatement(s, in);
  } catch (const Error& error) {
    in.execute = ThrowNotBuilt;
    in.target = static_cast<uint32_t>(program_.errors.size());
    program_.errors.emplace_back(error.what());
  }
}

void Decoder::DecodeStatement(const Statement& s, Instruction& in) {
  statement_ = &s;
  if (s.guarded) {
    in.guarded = true;
    in.guard = InPredicate(s.guard, in.guard_flip);
  }
  for (const auto group : kGroups) {
    for (const Rule& rule : group()) {
      if (rule.opcode == s.words[0] && Apply(rule, s, in)) return;
    }
  }
  Fail("this instruction is not built");
}

bool Decoder::Apply(const Rule& rule, const Statement& s, Instruction& in) {
  try {
    return rule.decode(*this, s, in);
  } catch (const std::out_of_range&) {
    Fail("it has too few words or operands");
  }
}

void Decoder::Fail(const std::string& why) const {
  throw Error("PTX line " + std::to_string(statement_ == nullptr ? function_.line : statement_->line) + ", in " +
              std::string(function_.name) + ", \"" +
              (statement_ == nullptr ? "" : std::string(statement_->text.substr(0, 160))) + "\": " + why);
}

void Decoder::LayOutRegisters() {
  size_t at = kSpecialBytes * static_cast<size_t>(Special::kCount);
  for (const Type type : function_.registers) {
    offsets_.push_back(at);
    at += type == Type::kPred ? 64 : std::max<size_t>(64, SizeOf(type) * kLanes);
  }
  program_.register_bytes = at;
}

void Decoder::LayOutParameters() {
  size_t at = 0;
  for (const VariableSyntax& p : function_.parameters) {
    at = RoundUp(at, p.alignment);
    places_[p.name] = {Space::kParam, at};
    at += p.bytes;
  }
  program_.parameter_bytes = at;
}

void Decoder::LayOutVariables() {
  for (const VariableSyntax& v : function_.variables) Allocate(v);
  for (const bool dynamic : {false, true}) {
    program_.dynamic_shared_at = RoundUp(program_.static_shared_bytes, 16);
    for (const Statement& s : function_.statements) {
      for (const OperandSyntax& o : s.operands) LayOutSharedOf(o, dynamic);
    }
  }
}

// Shared variables of the module that this function names. All dynamic ones begin at the same place, after the others.
void Decoder::LayOutSharedOf(const OperandSyntax& o, bool dynamic) {
  for (const OperandSyntax& part : o.parts) LayOutSharedOf(part, dynamic);
  if (o.kind != OperandSyntax::Kind::kName || places_.contains(o.name)) return;
  const VariableSyntax* const v = symbols_.FindShared(o.name);
  if (v == nullptr || (v->bytes == 0) != dynamic) return;
  if (!dynamic) return Allocate(*v);
  program_.dynamic_shared_at = RoundUp(program_.dynamic_shared_at, v->alignment);
  places_[v->name] = {Space::kShared, program_.dynamic_shared_at};
}

void Decoder::Allocate(const VariableSyntax& v) {
  if (v.space != Space::kShared && v.space != Space::kLocal) return;
  size_t& bytes = v.space == Space::kShared ? program_.static_shared_bytes : program_.local_bytes;
  bytes = RoundUp(bytes, v.alignment);
  places_[v.name] = {v.space, bytes};
  bytes += v.bytes;
}

Decoder::Place Decoder::AddressOf(const OperandSyntax& o) {
  auto found = places_.find(o.name);
  if (found == places_.end()) {
    const Variable* const variable = symbols_.FindVariable(o.name);
    if (variable == nullptr) Fail("\"" + std::string(o.name) + "\" is not declared");
    found = places_.emplace(o.name, Place{Space::kGlobal, variable->address}).first;
  }
  return {found->second.space, found->second.address + static_cast<uint64_t>(o.offset)};
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
        static_cast<Slot&>(slot) = Broadcast(AddressOf(o).address, slot.bytes);
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
      const Place place = AddressOf(base);
      in.immediate += static_cast<int64_t>(place.address + (in.space == Space::kGeneric ? WindowOf(place.space) : 0));
    }
    in.a = Broadcast(0, 8);
    in.flag = false;
  }
}

uint32_t Decoder::Target(const OperandSyntax& label) const {
  for (uint32_t scope = statement_->scope;; scope = function_.scopes[scope]) {
    for (const Label& l : function_.labels) {
      if (l.scope == scope && l.name == label.name) return l.statement;
    }
    if (scope == 0) Fail("the label \"" + std::string(label.name) + "\" is not declared");
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

Type LastType(const Decoder& decoder, const Statement& s) {
  const auto type = ParseType(s.words.back());
  if (!type) decoder.Fail("expected a type at the end of the opcode");
  return *type;
}

}  // namespace ingot::standin::ptx
