// Turns a function's statements into instructions. Rules by opcode are in decode tables, a file per group of instructions.
#pragma once

#include <map>
#include <span>
#include <string>

#include "standin/ptx/machine.h"
#include "standin/ptx/program.h"

namespace ingot::standin::ptx {

class Decoder;

// Fills `in` and returns true, or returns false if the statement's type belongs to another group.
struct Rule {
  std::string_view opcode;
  bool (*decode)(Decoder& decoder, const Statement& statement, Instruction& in);
};

// Addresses of what a module's functions share.
class Symbols {
 public:
  virtual ~Symbols() = default;
  virtual const Variable* FindVariable(std::string_view name) const = 0;
  virtual const VariableSyntax* FindShared(
      std::string_view name) const = 0;  // shared memory declared outside of functions
};

class Decoder {
 public:
  Decoder(const FunctionSyntax& function, const Symbols& symbols, Program& program);

  // An instruction that is not built throws Error when it runs: kernels hold calls of printf and assertions that no test reaches.
  void Decode();

  // Operands. `type` is the instruction's: registers must have its width.
  Slot In(const OperandSyntax& operand, Type type);
  Slot Out(const OperandSyntax& operand, Type type);
  // Operands that may be wider than the instruction's type.
  WideSlot InWide(const OperandSyntax& operand, Type type);
  WideSlot OutWide(const OperandSyntax& operand, Type type);
  // Sets `flip` to all ones for `!p`.
  Slot InPredicate(const OperandSyntax& operand, uint32_t& flip);
  // Fills in.a, in.flag (the address has 32 bits), in.immediate.
  void Address(const OperandSyntax& operand, Instruction& in);
  uint32_t Target(const OperandSyntax& label) const;
  void KeepList(Instruction& in, std::vector<WideSlot> list);
  // A slot for one value per lane that only this instruction uses.
  Slot Scratch(size_t bytes_per_lane);
  // Fills in.d from operand 0 and in.a, in.b, in.c from the next `sources`, all of `type`.
  void Fill(const Statement& statement, Instruction& in, Type type, int sources);

  [[noreturn]] void Fail(const std::string& why) const;
  const FunctionSyntax& function() const { return function_; }

 private:
  struct Place {
    Space space = Space::kGlobal;
    uint64_t address = 0;
  };

  void DecodeStatement(const Statement& statement, Instruction& in);
  void TryDecode(const Statement& statement, Instruction& in);
  bool Apply(const Rule& rule, const Statement& statement, Instruction& in);
  void LayOutRegisters();
  void LayOutParameters();
  void LayOutVariables();
  void LayOutSharedOf(const OperandSyntax& operand, bool dynamic);
  void Allocate(const VariableSyntax& variable);
  uint64_t Literal(const OperandSyntax& operand, Type type) const;
  Slot Broadcast(uint64_t bits, size_t bytes);
  bool FindSpecial(std::string_view name, Slot& slot) const;
  Place AddressOf(const OperandSyntax& operand);
  const OperandSyntax& Nth(size_t index) const;

  const FunctionSyntax& function_;
  const Symbols& symbols_;
  Program& program_;
  const Statement* statement_ = nullptr;
  std::vector<uintptr_t> offsets_;  // of registers
  std::map<std::string_view, Place> places_;
  std::map<std::pair<size_t, uint64_t>, Slot> constants_;
};

// The rules of each group.
std::span<const Rule> ArithmeticRules();
std::span<const Rule> BitRules();
std::span<const Rule> PermuteRules();
std::span<const Rule> FloatRules();
std::span<const Rule> HalfRules();
std::span<const Rule> CompareRules();
std::span<const Rule> ConvertRules();
std::span<const Rule> MoveRules();
std::span<const Rule> MemoryRules();
std::span<const Rule> AtomicRules();
std::span<const Rule> ControlRules();
std::span<const Rule> CollectiveRules();
std::span<const Rule> BarrierRules();
std::span<const Rule> CopyRules();
std::span<const Rule> MatrixRules();

// The statement's last word as a type; fails without one.
Type LastType(const Decoder& decoder, const Statement& statement);

}  // namespace ingot::standin::ptx
