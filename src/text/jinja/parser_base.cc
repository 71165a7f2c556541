#include <algorithm>

#include "text/jinja/parser.h"

namespace ingot::text::jinja {
namespace {

constexpr int kMaxNesting = 150;  // nesting depth of the source

}  // namespace

ParserBase::NestingGuard::NestingGuard(ParserBase* parser) : parser_(parser) {
  if (++parser->nesting_ > kMaxNesting) {
    parser->Error(absl::StrCat("more than ", kMaxNesting, " nested expressions or blocks"));
  }
}

Token ParserBase::Next() {
  const Token token = current();
  if (at_ + 1 < tokens_.size()) ++at_;
  return token;
}
bool ParserBase::IsOp(std::string_view op) const {
  return current().kind == Token::Kind::kOperator && current().text == op;
}
bool ParserBase::IsName(std::string_view name) const {
  return current().kind == Token::Kind::kName && current().text == name;
}
bool ParserBase::SkipOp(std::string_view op) { return IsOp(op) && (Next(), true); }
bool ParserBase::SkipName(std::string_view name) { return IsName(name) && (Next(), true); }
void ParserBase::ExpectOp(std::string_view op) {
  if (!SkipOp(op)) Error(absl::StrCat("expected token '", base::View(op), "', got '", Described(), "'"));
}
void ParserBase::ExpectName(std::string_view name) {
  if (!SkipName(name)) Error(absl::StrCat("expected token '", base::View(name), "', got '", Described(), "'"));
}
Token ParserBase::Expect(Token::Kind kind, const char* what) {
  if (current().kind != kind) Error(absl::StrCat("expected ", what, ", got '", Described(), "'"));
  return Next();
}
void ParserBase::Error(const std::string& what) const { FailSyntax(what, current().line); }

std::string ParserBase::Described() const {
  switch (current().kind) {
    case Token::Kind::kData:
      return "template data / text";
    case Token::Kind::kVariableBegin:
      return "begin of print statement";
    case Token::Kind::kVariableEnd:
      return "end of print statement";
    case Token::Kind::kBlockBegin:
      return "begin of statement block";
    case Token::Kind::kBlockEnd:
      return "end of statement block";
    case Token::Kind::kEnd:
      return "end of template";
    default:
      return current().text;
  }
}

int ParserBase::Slot(const std::string& name) {
  const auto [it, fresh] = slots_.emplace(name, static_cast<int>(names_.size()));
  if (fresh) names_.push_back(name);
  return it->second;
}

ExprPtr ExpressionParser::NameTarget() {
  const Token name = Expect(Token::Kind::kName, "a name");
  for (const char* constant : {"true", "false", "none", "True", "False", "None"}) {
    if (name.text == constant) Error(absl::StrCat("can't assign to '", name.text, "'"));
  }
  ExprPtr target = Make(Expr::Kind::kName, name.line);
  target->text = name.text;
  target->slot = Slot(name.text);
  return target;
}

ExprPtr ExpressionParser::Target(bool with_namespace, std::string_view end) {
  const int line = current().line;
  std::vector<ExprPtr> items;
  bool is_tuple = false;
  while (!(current().kind == Token::Kind::kBlockEnd || IsOp(")") || IsOp("=") || (!end.empty() && IsName(end)))) {
    if (SkipOp("(")) {
      const NestingGuard nested(this);
      items.push_back(Target(with_namespace));
      ExpectOp(")");
    } else {
      items.push_back(NameTarget());
      if (with_namespace && SkipOp(".")) {
        items.back()->kind = Expr::Kind::kAttribute;
        items.back()->text = Expect(Token::Kind::kName, "a name").text;
      }
    }
    if (!SkipOp(",")) break;
    is_tuple = true;
  }
  if (items.empty()) Error(absl::StrCat("expected a name to assign to, got '", Described(), "'"));
  if (!is_tuple) return std::move(items[0]);
  ExprPtr tuple = Make(Expr::Kind::kTuple, line);
  tuple->items = std::move(items);
  return Sealed(std::move(tuple));
}

}  // namespace ingot::text::jinja
