#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "standin/ptx/parser.h"

namespace ingot::standin::ptx {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

std::vector<std::string_view> CutAtDots(std::string_view opcode) {
  std::vector<std::string_view> words;
  for (size_t at = 0; at <= opcode.size();) {
    const size_t dot = std::min(opcode.find('.', at), opcode.size());
    words.push_back(opcode.substr(at, dot - at));
    at = dot + 1;
  }
  return words;
}

}  // namespace

void Parser::Body(FunctionSyntax& f) {
  Expect('{');
  while (!scopes_.empty()) BodyItem(f);
}

void Parser::OpenScope(FunctionSyntax& f) {
  const auto index = static_cast<uint32_t>(f.scopes.size());
  f.scopes.push_back(scopes_.back().index);
  scopes_.push_back({index, {}, {}});
}

void Parser::BodyItem(FunctionSyntax& f) {
  if (Accept('{')) return OpenScope(f);
  if (Accept('}')) return scopes_.pop_back();
  if (Accept(';')) return;
  if (token_.kind == Token::Kind::kWord && token_.text[0] == '.') {
    if (!BodyDirective(f)) Fail("expected a directive of a function");
    return;
  }
  Statement s = Instruction();
  if (s.words.empty()) return AddLabel(f, s.text);
  s.scope = scopes_.back().index;
  f.statements.push_back(std::move(s));
}

bool Parser::BodyDirective(FunctionSyntax& f) {
  const std::string_view name = Take().text;
  if (name == ".reg") return DeclareRegisters(f, Take().text), true;
  if (name.starts_with(".reg.")) return DeclareRegisters(f, name.substr(4)), true;  // inline assembly leaves out blanks
  if (name == ".pragma") return SkipStatement(), true;
  if (name == ".loc") {  // .loc 1 20 3 [, function_name $L, inlined_at 1 5 3]
    const uint32_t line = token_.line;
    while (token_.line == line && token_.kind != Token::Kind::kEnd) Take();
    return true;
  }
  const auto space = ParseSpace(name.substr(1));
  if (!space) return false;
  f.variables.push_back(Variable(*space, false));
  f.variables.back().scope = scopes_.back().index;
  while (Accept(',')) Take();
  Expect(';');
  return true;
}

// A label stands before a statement, or names a list: `NAME: .branchtargets A, B;`. Prototypes of indirect calls are skipped.
void Parser::AddLabel(FunctionSyntax& f, std::string_view name) {
  const uint32_t scope = scopes_.back().index;
  if (Accept(".branchtargets")) {
    f.targets.push_back({name, scope, {}});
    do f.targets.back().labels.push_back(SimpleOperand());
    while (Accept(','));
    Expect(';');
  } else if (token_.Is(".callprototype") || token_.Is(".calltargets")) {
    SkipStatement();
  } else {
    f.labels.push_back({name, scope, static_cast<uint32_t>(f.statements.size())});
  }
}

// .reg .b32 %r<9>; .reg .pred p, q;
void Parser::DeclareRegisters(FunctionSyntax& f, std::string_view type) {
  const auto parsed = ParseType(type.substr(std::min<size_t>(1, type.size())));
  if (!parsed) Fail("expected the type of a register");
  do {
    if (token_.kind != Token::Kind::kWord) Fail("expected the name of a register");
    const std::string_view name = Take().text;
    Registers r{static_cast<uint32_t>(f.registers.size()), 1};
    if (Accept('<')) {
      r.count = static_cast<uint32_t>(Number(false).bits);
      if (r.count > 1u << 24) Fail("expected fewer registers");
      Expect('>');
      scopes_.back().ranges[name] = r;
    } else {
      scopes_.back().names[name] = r;
    }
    f.registers.insert(f.registers.end(), r.count, *parsed);
  } while (Accept(','));
  Expect(';');
}

// An instruction with its semicolon, or a label: no words, and its name as text.
Statement Parser::Instruction() {
  Statement s;
  const char* const begin = token_.text.data();
  s.line = token_.line;
  if (Accept('@')) {
    s.guarded = true;
    const bool negated = Accept('!');
    s.guard = SimpleOperand();
    s.guard.negated = negated;
    if (s.guard.kind != OperandSyntax::Kind::kRegister) Fail("expected a predicate register before the instruction");
  }
  if (token_.kind != Token::Kind::kWord) Fail("expected an instruction");
  const Token opcode = Take();
  if (!s.guarded && Accept(':')) {
    s.text = opcode.text;
    return s;
  }
  s.words = CutAtDots(opcode.text);
  while (!token_.Is(';')) {
    if (token_.kind == Token::Kind::kEnd) Fail("expected ';'");
    s.operands.push_back(Operand());
    if (!Accept(',') && !token_.Is(';')) Fail("expected ',' or ';'");
  }
  s.text = {begin, static_cast<size_t>(token_.text.data() - begin)};
  Take();
  return s;
}

OperandSyntax Parser::Operand() {
  if (Accept('{')) return List('}');
  if (Accept('(')) return List(')');
  if (Accept('[')) return Address();
  OperandSyntax first = SimpleOperand();
  if (!Accept('|')) return first;
  OperandSyntax pair;
  pair.kind = OperandSyntax::Kind::kPair;
  pair.parts.push_back(std::move(first));
  pair.parts.push_back(SimpleOperand());
  return pair;
}

OperandSyntax Parser::List(char close) {
  OperandSyntax list;
  list.kind = OperandSyntax::Kind::kVector;
  while (!Accept(close)) {
    if (token_.kind == Token::Kind::kEnd) Fail("expected the end of a list");
    list.parts.push_back(SimpleOperand());
    Accept(',');
  }
  return list;
}

// [a], [a+8], [a+-8], [8]
OperandSyntax Parser::Address() {
  OperandSyntax address;
  address.kind = OperandSyntax::Kind::kAddress;
  address.parts.push_back(SimpleOperand());
  std::swap(address.offset, address.parts[0].offset);
  Expect(']');
  return address;
}

int64_t Parser::Offset() {
  if (!Accept('+')) return 0;
  return static_cast<int64_t>(Number(Accept('-')).bits);
}

OperandSyntax Parser::SimpleOperand() {
  const bool negated = Accept('!');
  if (Accept('-')) return Number(true);
  if (token_.kind == Token::Kind::kNumber) return Number(false);
  if (token_.kind != Token::Kind::kWord) Fail("expected an operand");
  OperandSyntax o;
  o.negated = negated;
  o.name = Take().text;
  if (o.name == "generic" && Accept('(')) {  // an initializer: generic(variable)
    o.name = Take().text;
    Expect(')');
    o.offset = Offset();
    return o;
  }
  if (FindRegister(o.name, o.index)) o.kind = OperandSyntax::Kind::kRegister;
  o.offset = Offset();
  return o;
}

OperandSyntax Parser::Number(bool negative) {
  if (token_.kind != Token::Kind::kNumber) Fail("expected a number");
  const std::string text(Take().text);
  OperandSyntax o;
  char* end = nullptr;
  if (text[0] == '0' && text.size() > 1 && std::strchr("fFdD", text[1]) != nullptr) {
    const bool wide = text[1] == 'd' || text[1] == 'D';
    o.kind = wide ? OperandSyntax::Kind::kFloat64 : OperandSyntax::Kind::kFloat32;
    o.bits = std::strtoull(text.c_str() + 2, &end, 16);
    if (negative) o.bits ^= wide ? uint64_t{1} << 63 : uint64_t{1} << 31;
  } else if (text.find('.') != std::string::npos) {
    o.kind = OperandSyntax::Kind::kFloat64;
    const double value = std::strtod(text.c_str(), &end) * (negative ? -1 : 1);
    std::memcpy(&o.bits, &value, sizeof(value));
  } else {
    const bool binary = text[0] == '0' && text.size() > 1 && (text[1] == 'b' || text[1] == 'B');
    o.kind = OperandSyntax::Kind::kInteger;
    o.bits = std::strtoull(text.c_str() + (binary ? 2 : 0), &end, binary ? 2 : 0);
    if (end != nullptr && (*end == 'U' || *end == 'u')) ++end;
    if (negative) o.bits = -o.bits;
  }
  if (end == nullptr || *end != '\0') Fail("expected a number instead of \"" + text + "\"");
  return o;
}

bool Parser::FindRegister(std::string_view name, uint32_t& index) const {
  size_t digits = name.size();
  while (digits > 0 && IsDigit(name[digits - 1])) --digits;
  const std::string_view prefix = name.substr(0, digits);
  uint64_t number = 0;
  for (const char c : name.substr(digits)) number = number * 10 + static_cast<uint64_t>(c - '0');
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    if (const auto found = scope->names.find(name); found != scope->names.end()) {
      index = found->second.first;
      return true;
    }
    const auto range = digits < name.size() ? scope->ranges.find(prefix) : scope->ranges.end();
    if (range != scope->ranges.end() && number < range->second.count) {
      index = range->second.first + static_cast<uint32_t>(number);
      return true;
    }
  }
  return false;
}

}  // namespace ingot::standin::ptx
