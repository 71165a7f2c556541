// Parses PTX by recursive descent over one token of look-ahead. Shared by parser.cc (module and declarations) and parse_function.cc (bodies).
#pragma once

#include <map>
#include <string>

#include "standin/ptx/lexer.h"
#include "standin/ptx/machine.h"
#include "standin/ptx/syntax.h"

namespace ingot::standin::ptx {

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text), lexer_(text), token_(lexer_.Next()) {}

  ModuleSyntax Module();

 protected:
  // Registers by name, and those declared as a range by prefix.
  struct Registers {
    uint32_t first = 0;
    uint32_t count = 0;
  };
  struct Scope {
    uint32_t index = 0;
    std::map<std::string_view, Registers> names, ranges;
  };

  // Tokens.
  Token Take();
  void Expect(char sign);
  bool Accept(char sign);
  bool Accept(std::string_view word);
  [[noreturn]] void Fail(const std::string& what) const;
  void SkipStatement();

  // Declarations.
  bool ModuleDirective(ModuleSyntax& module);
  VariableSyntax Variable(Space space, bool external);
  void Dimensions(VariableSyntax& variable);
  void Values(VariableSyntax& variable);
  void Function(ModuleSyntax& module, bool entry, bool external);
  void Parameters(FunctionSyntax& function);
  void Limits(FunctionSyntax& function);
  unsigned Threads();

  // Bodies.
  void Body(FunctionSyntax& function);
  void BodyItem(FunctionSyntax& function);
  bool BodyDirective(FunctionSyntax& function);
  void DeclareRegisters(FunctionSyntax& function, std::string_view type);  // ".b32"
  void OpenScope(FunctionSyntax& function);
  void AddLabel(FunctionSyntax& function, std::string_view name);
  Statement Instruction();
  OperandSyntax Operand();
  OperandSyntax SimpleOperand();
  OperandSyntax List(char close);
  OperandSyntax Address();
  OperandSyntax Number(bool negative);
  int64_t Offset();
  bool FindRegister(std::string_view name, uint32_t& index) const;

  std::string_view text_;
  Lexer lexer_;
  Token token_;
  std::vector<Scope> scopes_;
};

}  // namespace ingot::standin::ptx
