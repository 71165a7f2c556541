// A parsed PTX module: what its text says, before anything is decoded. Views point into the module's text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "standin/ptx/types.h"

namespace ingot::standin::ptx {

struct OperandSyntax {
  enum class Kind : uint8_t {
    kRegister,  // index
    kName,      // a special register, a variable, a parameter, a label or `_`; offset for `name+4`
    kInteger,   // bits
    kFloat32,   // bits of a 0f literal
    kFloat64,   // bits of a 0d literal or of a decimal number with a point
    kAddress,   // [parts[0] + offset]
    kVector,    // {parts}
    kPair,      // parts[0] | parts[1]
  };

  Kind kind = Kind::kName;
  bool negated = false;  // `!p`
  uint32_t index = 0;    // of the function's registers
  std::string_view name;
  uint64_t bits = 0;
  int64_t offset = 0;
  std::vector<OperandSyntax> parts;
};

struct Statement {
  uint32_t line = 0;
  uint32_t scope = 0;                   // of FunctionSyntax::scopes, for its labels
  std::string_view text;                // up to the semicolon, for messages
  std::vector<std::string_view> words;  // the opcode cut at its dots: "ld", "global", "v2", "u32"
  std::vector<OperandSyntax> operands;
  bool guarded = false;  // guard is a predicate register
  OperandSyntax guard;

  bool Has(std::string_view word) const {
    for (const std::string_view w : words) {
      if (w == word) return true;
    }
    return false;
  }
};

struct VariableSyntax {
  std::string_view name;
  Space space = Space::kGlobal;
  Type type = Type::kB8;
  size_t alignment = 1;
  size_t bytes = 0;  // 0 = the launch's dynamic shared memory
  bool external = false;
  // Its first values, of SizeOf(type) each; a name stands for the variable's address.
  std::vector<OperandSyntax> values;
  uint32_t line = 0;
  uint32_t scope = 0;  // of FunctionSyntax::scopes
};

struct Label {
  std::string_view name;
  uint32_t scope = 0;
  uint32_t statement = 0;  // index of the statement after it
};

// .branchtargets: where `brx.idx` may go.
struct TargetsSyntax {
  std::string_view name;
  uint32_t scope = 0;
  std::vector<OperandSyntax> labels;
};

struct FunctionSyntax {
  std::string_view name;
  bool entry = false;
  uint32_t line = 0;
  unsigned max_threads = 1024;
  unsigned min_blocks = 0;  // 0 = not given, as below
  unsigned max_registers = 0;
  size_t results = 0;  // the first ones of `parameters`
  std::vector<VariableSyntax> parameters;
  std::vector<VariableSyntax> variables;  // local, shared, and the parameters of calls
  std::vector<Type> registers;
  std::vector<uint32_t> scopes;  // parent of each; scope 0 is the function and its own parent
  std::vector<Label> labels;
  std::vector<TargetsSyntax> targets;
  std::vector<Statement> statements;
};

struct ModuleSyntax {
  std::vector<VariableSyntax> variables;
  std::vector<FunctionSyntax> functions;  // with a body
};

// Throws Error, which names the line.
ModuleSyntax Parse(std::string_view text);

}  // namespace ingot::standin::ptx
