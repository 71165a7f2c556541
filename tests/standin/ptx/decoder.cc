#include "standin/ptx/decoder.h"

#include <iterator>
#include <stdexcept>
#include <utility>

#include "standin/ptx/block.h"

namespace ingot::standin::ptx {
namespace {

constexpr std::span<const Rule> (*kGroups[])() = {
    ArithmeticRules, DotRules,        BitRules,     PermuteRules, FloatRules,    HalfRules,
    CompareRules,    ConvertRules,    MoveRules,    MemoryRules,  AtomicRules,   ControlRules,
    CallRules,       CollectiveRules, BarrierRules, CopyRules,    MBarrierRules, MatrixRules};

[[noreturn]] void ThrowNotBuilt(Warp& w, const Instruction& in, uint32_t) {
  throw Error(w.block().launch().program.errors[in.target]);
}

constexpr size_t kMostInstructions = 4'000'000;

}  // namespace

Decoder::Decoder(const FunctionSyntax& function, const Symbols& symbols, Program& program, const Call* call)
    : function_(function), symbols_(symbols), program_(program), call_(call), layout_(function, symbols, program) {}

void Decoder::Decode() {
  if (call_ == nullptr) {
    LayOutShared(function_, symbols_, program_);
    layout_.AddKernelParameters();
  } else {
    layout_.AddCallParameters(call_->parameters);
  }
  layout_.AddLocals();
  LayOutRegisters();
  for (const Statement& s : function_.statements) Append(s);
  positions_.push_back(static_cast<uint32_t>(program_.code.size()));
  if (call_ == nullptr) AppendEnd();
  ResolveTargets();
}

void Decoder::Append(const Statement& s) {
  if (program_.code.size() > kMostInstructions) Fail("the kernel is too long with the functions that it calls");
  positions_.push_back(static_cast<uint32_t>(program_.code.size()));
  Instruction in;
  in.statement = static_cast<uint32_t>(program_.statements.size());
  program_.statements.push_back(&s);
  TryDecode(s, in);
  program_.code.push_back(in);
  if (inlined_) AppendInlined();
}

void Decoder::AppendInlined() {
  const size_t branch = program_.code.size() - 1;
  const Call call = *std::exchange(inlined_, std::nullopt);
  Decoder(*call.function, symbols_, program_, &call).Decode();
  program_.code[branch].target = static_cast<uint32_t>(program_.code.size());
}

// Ends the lanes that run past a kernel's last statement.
void Decoder::AppendEnd() {
  static constexpr std::string_view kExit[] = {"exit"};
  static const Statement end{
      .text = "exit", .words = {std::begin(kExit), std::end(kExit)}, .operands = {}, .guard = {}};
  Instruction in;
  in.statement = static_cast<uint32_t>(program_.statements.size());
  program_.statements.push_back(&end);
  DecodeStatement(end, in);
  program_.code.push_back(in);
}

void Decoder::ResolveTargets() {
  for (const size_t branch : branches_) {
    uint32_t& target = program_.code[branch].target;
    target = positions_[target];
  }
  for (const size_t list : target_lists_) {
    for (uint32_t& target : program_.targets[list]) target = positions_[target];
  }
}

uint32_t Decoder::Target(const OperandSyntax& label) {
  branches_.push_back(program_.code.size());
  return FindLabel(label);
}

uint32_t Decoder::End() {
  branches_.push_back(program_.code.size());
  return static_cast<uint32_t>(function_.statements.size());
}

int64_t Decoder::Targets(const OperandSyntax& name) {
  for (uint32_t scope = statement_->scope;; scope = function_.scopes[scope]) {
    for (const TargetsSyntax& t : function_.targets) {
      if (t.scope != scope || t.name != name.name) continue;
      std::vector<uint32_t> list;
      for (const OperandSyntax& label : t.labels) list.push_back(FindLabel(label));
      target_lists_.push_back(program_.targets.size());
      program_.targets.push_back(std::move(list));
      return static_cast<int64_t>(target_lists_.back());
    }
    if (scope == 0) Fail("the list of labels \"" + std::string(name.name) + "\" is not declared");
  }
}

uint32_t Decoder::FindLabel(const OperandSyntax& label) const {
  for (uint32_t scope = statement_->scope;; scope = function_.scopes[scope]) {
    for (const Label& l : function_.labels) {
      if (l.scope == scope && l.name == label.name) return l.statement;
    }
    if (scope == 0) Fail("the label \"" + std::string(label.name) + "\" is not declared");
  }
}

void Decoder::Inline(Call call) { inlined_ = std::move(call); }

bool Decoder::Calls(const FunctionSyntax& function) const {
  for (const Decoder* d = this;; d = d->call_->caller) {
    if (&d->function_ == &function) return true;
    if (d->call_ == nullptr) return false;
  }
}

void Decoder::TryDecode(const Statement& s, Instruction& in) {
  try {
    DecodeStatement(s, in);
  } catch (const Error& error) {
    while (!branches_.empty() && branches_.back() == program_.code.size()) branches_.pop_back();
    inlined_.reset();
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
      if (rule.opcode == s.words[0] && Apply(rule, s, in)) return CheckWords(*this, s);
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

Type LastType(const Decoder& decoder, const Statement& s) {
  const auto type = ParseType(s.words.back());
  if (!type) decoder.Fail("expected a type at the end of the opcode");
  return *type;
}

}  // namespace ingot::standin::ptx
