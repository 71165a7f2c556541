#include "standin/ptx/parser.h"

#include <algorithm>
#include <cstdlib>

namespace ingot::standin::ptx {
namespace {

// ".u32" without its dot.
std::string_view AfterDot(std::string_view word) { return word.substr(std::min<size_t>(1, word.size())); }

}  // namespace

Token Parser::Take() {
  const Token token = token_;
  token_ = lexer_.Next();
  return token;
}

void Parser::Fail(const std::string& what) const {
  throw Error("PTX line " + std::to_string(token_.line) + ": " + what + ", but there is " +
              (token_.kind == Token::Kind::kEnd ? "the end" : "\"" + std::string(token_.text.substr(0, 60)) + "\""));
}

void Parser::Expect(char sign) {
  if (!Accept(sign)) Fail(std::string("expected '") + sign + "'");
}

bool Parser::Accept(char sign) {
  if (!token_.Is(sign)) return false;
  Take();
  return true;
}

bool Parser::Accept(std::string_view word) {
  if (!token_.Is(word)) return false;
  Take();
  return true;
}

void Parser::SkipStatement() {
  while (token_.kind != Token::Kind::kEnd && !token_.Is(';')) Take();
  Expect(';');
}

ModuleSyntax Parser::Module() {
  ModuleSyntax module;
  while (token_.kind != Token::Kind::kEnd) {
    if (!ModuleDirective(module)) Fail("expected a directive");
  }
  return module;
}

bool Parser::ModuleDirective(ModuleSyntax& module) {
  if (Accept(".version") || Accept(".address_size")) return Take().kind == Token::Kind::kNumber;
  if (Accept(".target")) {
    do Take();
    while (Accept(','));
    return true;
  }
  if (Accept(".pragma")) return SkipStatement(), true;
  if (Accept(".file")) {  // .file 1 "name", 1, 2
    Take();
    do Take();
    while (Accept(','));
    return true;
  }
  if (Accept(".section")) {
    Take();
    Expect('{');
    while (token_.kind != Token::Kind::kEnd && !token_.Is('}')) Take();
    return Accept('}');
  }
  bool external = false;
  while (token_.Is(".visible") || token_.Is(".weak") || token_.Is(".extern") || token_.Is(".common")) {
    external |= Take().text == ".extern";
  }
  if (Accept(".entry")) return Function(module, true, external), true;
  if (Accept(".func")) return Function(module, false, external), true;
  if (token_.kind != Token::Kind::kWord || token_.text.size() < 2) return false;
  const auto space = ParseSpace(AfterDot(token_.text));
  if (!space) return false;
  Take();
  module.variables.push_back(Variable(*space, external));
  Expect(';');
  return true;
}

// After the space: .align 8 .v2 .b8 name[4][5] = {1, 2}
VariableSyntax Parser::Variable(Space space, bool external) {
  VariableSyntax v;
  v.space = space;
  v.external = external;
  size_t vector = 1, alignment = 0;
  for (bool typed = false; !typed;) {
    const Token word = Take();
    if (word.text == ".align") {
      alignment = std::strtoull(std::string(Take().text).c_str(), nullptr, 0);
    } else if (word.text == ".v2" || word.text == ".v4") {
      vector = word.text == ".v2" ? 2 : 4;
    } else if (word.text == ".ptr" || word.text == ".attribute" || ParseSpace(AfterDot(word.text))) {
      if (word.text == ".attribute") List(')');
    } else if (const auto type = ParseType(AfterDot(word.text))) {
      v.type = *type;
      typed = true;
    } else {
      Fail("expected the type of a variable after \"" + std::string(word.text.substr(0, 60)) + "\"");
    }
  }
  // A parameter names the alignment of what it points to after its type.
  while (token_.Is(".ptr") || token_.Is(".align") || ParseSpace(AfterDot(token_.text))) {
    if (Take().text == ".align") Take();
  }
  v.line = token_.line;
  if (token_.kind != Token::Kind::kWord) Fail("expected the name of a variable");
  v.name = Take().text;
  v.bytes = SizeOf(v.type) * vector;
  v.alignment = alignment != 0 ? alignment : v.bytes;
  if ((v.alignment & (v.alignment - 1)) != 0) Fail("expected an alignment that is a power of two");
  Dimensions(v);
  if (Accept('=')) Values(v);
  return v;
}

void Parser::Dimensions(VariableSyntax& v) {
  while (Accept('[')) {
    const OperandSyntax count = token_.Is(']') ? OperandSyntax{} : Number(false);
    if (count.bits > (size_t{1} << 40)) Fail("expected a smaller array");
    v.bytes *= count.bits;  // `[]` is dynamic
    Expect(']');
  }
}

void Parser::Values(VariableSyntax& v) {
  if (!Accept('{')) {
    v.values.push_back(SimpleOperand());
    return;
  }
  for (int depth = 1; depth > 0;) {
    if (Accept('{')) {
      ++depth;
    } else if (Accept('}')) {
      --depth;
    } else if (!Accept(',')) {
      v.values.push_back(SimpleOperand());
    }
  }
}

// .func (.param .b32 result) name (parameters) limits { body }
void Parser::Function(ModuleSyntax& module, bool entry, bool external) {
  FunctionSyntax f;
  f.entry = entry;
  f.line = token_.line;
  scopes_.assign(1, {});
  f.scopes.assign(1, 0);
  if (!entry && token_.Is('(')) Parameters(f);
  f.results = f.parameters.size();
  f.name = Take().text;
  if (token_.Is('(')) Parameters(f);
  Limits(f);
  if (Accept(';') || external) return;
  Body(f);
  module.functions.push_back(std::move(f));
}

void Parser::Parameters(FunctionSyntax& f) {
  Expect('(');
  while (!Accept(')')) {
    const Token space = Take();
    if (space.text != ".param" && space.text != ".reg") Fail("expected a parameter");
    f.parameters.push_back(Variable(space.text == ".param" ? Space::kParam : Space::kRegister, false));
    Accept(',');
  }
}

unsigned Parser::Threads() {
  unsigned threads = 1;
  do threads *= static_cast<unsigned>(Number(false).bits);
  while (Accept(','));
  return threads;
}

void Parser::Limits(FunctionSyntax& f) {
  while (token_.kind == Token::Kind::kWord && token_.text[0] == '.') {
    const std::string_view name = Take().text;
    if (name == ".pragma") {
      SkipStatement();
    } else if (token_.kind == Token::Kind::kNumber) {
      const unsigned number = Threads();
      if (name == ".maxntid" || name == ".reqntid") f.max_threads = number;
      if (name == ".minnctapersm") f.min_blocks = number;
      if (name == ".maxnreg") f.max_registers = number;
    }
  }
}

ModuleSyntax Parse(std::string_view text) { return Parser(text).Module(); }

}  // namespace ingot::standin::ptx
