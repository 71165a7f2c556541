// Turns a function's statements into instructions. Rules by opcode are in decode tables, a file per group of instructions.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>

#include "standin/ptx/layout.h"

namespace ingot::standin::ptx {

class Decoder;

// Fills `in` and returns true, or returns false if the statement's type belongs to another group.
struct Rule {
  std::string_view opcode;
  bool (*decode)(Decoder& decoder, const Statement& statement, Instruction& in);
};

// A call whose function is decoded in its place.
struct Call {
  const Decoder* caller = nullptr;
  const FunctionSyntax* function = nullptr;
  std::vector<Place> parameters;  // results first
};

class Decoder {
 public:
  // Appends the code of `function` to `program`. `call` is null for a kernel.
  Decoder(const FunctionSyntax& function, const Symbols& symbols, Program& program, const Call* call = nullptr);

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
  // The code's index, once the function is decoded, goes to in.target of the instruction that is being decoded.
  uint32_t Target(const OperandSyntax& label);
  uint32_t End();                                      // likewise, of the function's end
  int64_t Targets(const OperandSyntax& name);          // index in Program::targets
  void Inline(Call call);                              // after the instruction, which then branches past it
  Place PlaceOf(const OperandSyntax& variable) const;  // of a name
  bool Calls(const FunctionSyntax& function) const;    // whether the code is inside of a call of it
  const Call* call() const { return call_; }           // null in a kernel
  const Symbols& symbols() const { return symbols_; }
  void KeepList(Instruction& in, std::vector<WideSlot> list);
  Slot Zeros() { return Broadcast(0, 8); }
  Slot One() { return Broadcast(1, 4); }
  // A slot for one value per lane that only this instruction uses.
  Slot Scratch(size_t bytes_per_lane);
  // Fills in.d from operand 0 and in.a, in.b, in.c from the next `sources`, all of `type`.
  void Fill(const Statement& statement, Instruction& in, Type type, int sources);

  [[noreturn]] void Fail(const std::string& why) const;
  const FunctionSyntax& function() const { return function_; }

 private:
  void Append(const Statement& statement);
  void AppendEnd();
  void AppendInlined();
  void ResolveTargets();
  void DecodeStatement(const Statement& statement, Instruction& in);
  void TryDecode(const Statement& statement, Instruction& in);
  bool Apply(const Rule& rule, const Statement& statement, Instruction& in);
  void LayOutRegisters();
  uint64_t Literal(const OperandSyntax& operand, Type type) const;
  uint64_t ValueOf(const OperandSyntax& variable) const;
  uint32_t FindLabel(const OperandSyntax& label) const;
  Slot Broadcast(uint64_t bits, size_t bytes);
  bool FindSpecial(std::string_view name, Slot& slot) const;

  const FunctionSyntax& function_;
  const Symbols& symbols_;
  Program& program_;
  const Call* const call_;
  Layout layout_;
  const Statement* statement_ = nullptr;
  std::vector<uintptr_t> offsets_;    // of registers
  std::vector<uint32_t> positions_;   // of statements in the code, and of the end
  std::vector<size_t> branches_;      // instructions of which the target is a statement
  std::vector<size_t> target_lists_;  // likewise, in Program::targets
  std::optional<Call> inlined_;
  std::map<std::pair<size_t, uint64_t>, Slot> constants_;
};

// The rules of each group.
std::span<const Rule> ArithmeticRules();
std::span<const Rule> DotRules();
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
std::span<const Rule> CallRules();
std::span<const Rule> CollectiveRules();
std::span<const Rule> BarrierRules();
std::span<const Rule> CopyRules();
std::span<const Rule> MBarrierRules();
std::span<const Rule> MatrixRules();

// Fails if a word of the opcode is none that its rules read.
void CheckWords(const Decoder& decoder, const Statement& statement);

// The statement's last word as a type; fails without one.
Type LastType(const Decoder& decoder, const Statement& statement);

}  // namespace ingot::standin::ptx
