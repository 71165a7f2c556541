#include "standin/ptx/layout.h"

#include <algorithm>

namespace ingot::standin::ptx {
namespace {

size_t RoundUp(size_t value, size_t to) { return (value + to - 1) / to * to; }

uint64_t Allocate(size_t& end, const VariableSyntax& v) {
  const size_t at = RoundUp(end, v.alignment);
  end = at + v.bytes;
  return at;
}

template <typename F>
void ForNames(const std::vector<OperandSyntax>& operands, const F& f) {
  for (const OperandSyntax& o : operands) {
    ForNames(o.parts, f);
    if (o.kind == OperandSyntax::Kind::kName) f(o.name);
  }
}

void AddCalled(const FunctionSyntax& f, const Symbols& symbols, std::vector<const FunctionSyntax*>& all) {
  if (std::find(all.begin(), all.end(), &f) != all.end()) return;
  all.push_back(&f);
  for (const Statement& s : f.statements) {
    const OperandSyntax* const callee = s.words[0] == "call" ? CalleeOf(s) : nullptr;
    const FunctionSyntax* const called = callee == nullptr ? nullptr : symbols.FindFunction(callee->name);
    if (called != nullptr) AddCalled(*called, symbols, all);
  }
}

bool Declares(const FunctionSyntax& f, std::string_view name) {
  return std::any_of(f.variables.begin(), f.variables.end(), [&](const VariableSyntax& v) { return v.name == name; });
}

// Calls f for the module's shared variables that `functions` name.
template <typename F>
void ForNamedShared(const std::vector<const FunctionSyntax*>& functions, const Symbols& symbols, bool dynamic,
                    const F& f) {
  for (const FunctionSyntax* function : functions) {
    for (const Statement& s : function->statements) {
      ForNames(s.operands, [&](std::string_view name) {
        const VariableSyntax* const v = Declares(*function, name) ? nullptr : symbols.FindShared(name);
        if (v != nullptr && (v->bytes == 0) == dynamic) f(*v);
      });
    }
  }
}

}  // namespace

const OperandSyntax* CalleeOf(const Statement& s) {
  for (const OperandSyntax& o : s.operands) {
    if (o.kind != OperandSyntax::Kind::kVector) return &o;
  }
  return nullptr;
}

void LayOutShared(const FunctionSyntax& kernel, const Symbols& symbols, Program& program) {
  std::vector<const FunctionSyntax*> functions;
  AddCalled(kernel, symbols, functions);
  size_t& end = program.static_shared_bytes;
  for (const FunctionSyntax* f : functions) {
    for (const VariableSyntax& v : f->variables) {
      if (v.space == Space::kShared) program.shared[&v] = Allocate(end, v);
    }
  }
  ForNamedShared(functions, symbols, false, [&](const VariableSyntax& v) {
    if (!program.shared.contains(&v)) program.shared[&v] = Allocate(end, v);
  });
  size_t& at = program.dynamic_shared_at;
  at = RoundUp(end, 16);
  ForNamedShared(functions, symbols, true, [&](const VariableSyntax& v) { at = RoundUp(at, v.alignment); });
  ForNamedShared(functions, symbols, true, [&](const VariableSyntax& v) { program.shared[&v] = at; });
}

void Layout::AddKernelParameters() {
  for (const VariableSyntax& p : function_.parameters) {
    own_[{0, p.name}] = {Space::kParam, Allocate(program_.parameter_bytes, p), p.bytes, false};
  }
}

void Layout::AddCallParameters(const std::vector<Place>& places) {
  for (size_t i = 0; i < places.size(); ++i) own_[{0, function_.parameters[i].name}] = places[i];
}

void Layout::AddLocals() {
  for (const VariableSyntax& v : function_.variables) {
    const bool of_call = v.space == Space::kParam;
    if (v.space != Space::kLocal && !of_call) continue;
    own_[{v.scope, v.name}] = {Space::kLocal, Allocate(program_.local_bytes, v), v.bytes, of_call};
  }
  for (const VariableSyntax& v : function_.variables) {
    if (v.space == Space::kShared) own_[{v.scope, v.name}] = {Space::kShared, program_.shared.at(&v), v.bytes, false};
  }
}

std::optional<Place> Layout::Find(std::string_view name, uint32_t scope) const {
  for (;; scope = function_.scopes[scope]) {
    const auto found = own_.find({scope, name});
    if (found != own_.end()) return found->second;
    if (scope == 0) break;
  }
  if (const VariableSyntax* const v = symbols_.FindShared(name)) {
    const auto found = program_.shared.find(v);
    if (found != program_.shared.end()) return Place{Space::kShared, found->second, v->bytes, false};
  }
  const Variable* const v = symbols_.FindVariable(name);
  return v == nullptr ? std::nullopt : std::optional(Place{Space::kGlobal, v->address, v->bytes, false});
}

}  // namespace ingot::standin::ptx
