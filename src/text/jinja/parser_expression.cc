#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "text/jinja/methods.h"
#include "text/jinja/parser.h"

namespace ingot::text::jinja {
namespace {

constexpr int kMaxExprDepth = 400;  // depth of the tree; `a + b + c ...` is as deep as it is long

Value IntegerConstant(const std::string& text, int line) {
  int base = 10;
  size_t skip = 0;
  if (text.size() > 2 && text[0] == '0') {
    const char c = static_cast<char>(text[1] | 0x20);
    base = c == 'x' ? 16 : c == 'o' ? 8 : c == 'b' ? 2 : 10;
    skip = base == 10 ? 0 : 2;
  }
  int64_t value = 0;
  const char* const end = text.data() + text.size();
  if (std::from_chars(text.data() + skip, end, value, base).ptr != end) {
    FailSyntax(absl::StrCat("the number ", text, " does not fit in 64 bits"), line);
  }
  return Value(value);
}

}  // namespace

ExprPtr ExpressionParser::Make(Expr::Kind kind, int line, ExprPtr a, ExprPtr b, ExprPtr c) {
  auto node = std::make_unique<Expr>();
  node->kind = kind;
  node->line = line;
  for (ExprPtr* child : {&a, &b, &c}) {
    if (*child != nullptr) node->items.push_back(std::move(*child));
  }
  return node;
}

ExprPtr ExpressionParser::Sealed(ExprPtr node) const {
  const auto deepen = [&](const ExprPtr& child) {
    if (child != nullptr) node->depth = std::max(node->depth, child->depth + 1);
  };
  for (const ExprPtr& child : node->items) deepen(child);
  for (const ExprPtr& child : node->arguments.positional) deepen(child);
  for (const auto& [name, child] : node->arguments.named) deepen(child);
  deepen(node->arguments.star);
  deepen(node->arguments.double_star);
  if (node->depth > kMaxExprDepth) Error(absl::StrCat("an expression of more than ", kMaxExprDepth, " levels"));
  return node;
}

ExprPtr ExpressionParser::Expression(bool with_condition) {
  const NestingGuard nested(this);
  return with_condition ? Condition() : Or();
}

ExprPtr ExpressionParser::Condition() {
  const int line = current().line;
  ExprPtr value = Or();
  while (SkipName("if")) {
    ExprPtr test = Or();
    ExprPtr otherwise;
    if (SkipName("else")) {
      const NestingGuard nested(this);
      otherwise = Condition();
    }
    value = Sealed(Make(Expr::Kind::kCondition, line, std::move(value), std::move(test), std::move(otherwise)));
  }
  return value;
}

ExprPtr ExpressionParser::Or() {
  const int line = current().line;
  ExprPtr left = And();
  while (SkipName("or")) left = Sealed(Make(Expr::Kind::kOr, line, std::move(left), And()));
  return left;
}

ExprPtr ExpressionParser::And() {
  const int line = current().line;
  ExprPtr left = Not();
  while (SkipName("and")) left = Sealed(Make(Expr::Kind::kAnd, line, std::move(left), Not()));
  return left;
}

ExprPtr ExpressionParser::Not() {
  if (!IsName("not")) return Comparison();
  const NestingGuard nested(this);
  const int line = Next().line;
  return Sealed(Make(Expr::Kind::kNot, line, Not()));
}

ExprPtr ExpressionParser::Comparison() {
  const int line = current().line;
  ExprPtr first = Sum();
  ExprPtr node;
  const auto add = [&](const std::string& op) {
    if (node == nullptr) node = Make(Expr::Kind::kCompare, line, std::move(first));
    node->ops.push_back(op);
    node->items.push_back(Sum());
  };
  while (true) {
    const bool is_op = current().kind == Token::Kind::kOperator;
    const std::string& text = current().text;
    if (is_op && (text == "==" || text == "!=" || text == "<" || text == "<=" || text == ">" || text == ">=")) {
      add(Next().text);
    } else if (SkipName("in")) {
      add("in");
    } else if (IsName("not") && look().kind == Token::Kind::kName && look().text == "in") {
      Next();
      Next();
      add("notin");
    } else {
      return node == nullptr ? std::move(first) : Sealed(std::move(node));
    }
  }
}

ExprPtr ExpressionParser::Sum() {
  const int line = current().line;
  ExprPtr left = Concatenation();
  while (IsOp("+") || IsOp("-")) {
    const char op = Next().text[0];
    left = Sealed(Make(Expr::Kind::kBinary, line, std::move(left), Concatenation()));
    left->op = op;
  }
  return left;
}

ExprPtr ExpressionParser::Concatenation() {
  const int line = current().line;
  ExprPtr first = Product();
  if (!IsOp("~")) return first;
  ExprPtr node = Make(Expr::Kind::kConcat, line, std::move(first));
  while (SkipOp("~")) node->items.push_back(Product());
  return Sealed(std::move(node));
}

ExprPtr ExpressionParser::Product() {
  const int line = current().line;
  ExprPtr left = Power();
  while (IsOp("*") || IsOp("/") || IsOp("//") || IsOp("%")) {
    const std::string op = Next().text;
    left = Sealed(Make(Expr::Kind::kBinary, line, std::move(left), Power()));
    left->op = op == "//" ? 'f' : op[0];
  }
  return left;
}

ExprPtr ExpressionParser::Power() {
  const int line = current().line;
  ExprPtr left = Unary(true);
  while (SkipOp("**")) {
    left = Sealed(Make(Expr::Kind::kBinary, line, std::move(left), Unary(true)));
    left->op = 'p';
  }
  return left;
}

ExprPtr ExpressionParser::Unary(bool with_filters) {
  const int line = current().line;
  ExprPtr node;
  if (IsOp("-") || IsOp("+")) {
    const NestingGuard nested(this);
    const Expr::Kind kind = Next().text == "-" ? Expr::Kind::kNegate : Expr::Kind::kPlus;
    node = Sealed(Make(kind, line, Unary(false)));
  } else {
    node = Primary();
  }
  node = Postfix(std::move(node));
  while (with_filters) {
    if (IsOp("|")) {
      node = Filters(std::move(node), false);
    } else if (SkipName("is")) {
      node = TestAfterIs(std::move(node));
    } else if (IsOp("(")) {
      node = Call(std::move(node));
    } else {
      break;
    }
  }
  return node;
}

ExprPtr ExpressionParser::Primary() {
  const int line = current().line;
  ExprPtr constant = Make(Expr::Kind::kConst, line);
  switch (current().kind) {
    case Token::Kind::kName: {
      const std::string name = Next().text;
      if (name == "true" || name == "True" || name == "false" || name == "False") {
        constant->constant = Value(name[0] == 't' || name[0] == 'T');
      } else if (name != "none" && name != "None") {
        constant->kind = Expr::Kind::kName;
        constant->slot = Slot(name);
        constant->text = name;
        loaded_.push_back(name);
      }
      return constant;
    }
    case Token::Kind::kString: {
      std::string text = Next().text;
      while (current().kind == Token::Kind::kString) text += Next().text;
      constant->constant = Value::Text(std::move(text));
      return constant;
    }
    case Token::Kind::kInteger:
      constant->constant = IntegerConstant(Next().text, line);
      return constant;
    case Token::Kind::kFloat:
      constant->constant = Value(std::strtod(Next().text.c_str(), nullptr));
      return constant;
    default:
      break;
  }
  if (SkipOp("(")) {
    ExprPtr node = TupleExpression(true, "", true);
    ExpectOp(")");
    return node;
  }
  if (IsOp("[")) return ListLiteral();
  if (IsOp("{")) return DictLiteral();
  Error(absl::StrCat("unexpected '", Described(), "'"));
}

ExprPtr ExpressionParser::TupleExpression(bool with_condition, std::string_view end, bool parenthesised) {
  const int line = current().line;
  std::vector<ExprPtr> items;
  bool is_tuple = false;
  while (true) {
    if (current().kind == Token::Kind::kVariableEnd || current().kind == Token::Kind::kBlockEnd || IsOp(")") ||
        (!end.empty() && IsName(end))) {
      break;
    }
    items.push_back(Expression(with_condition));
    if (!SkipOp(",")) break;
    is_tuple = true;
  }
  if (!is_tuple && !items.empty()) return std::move(items[0]);
  if (items.empty() && !parenthesised) Error(absl::StrCat("Expected an expression, got '", Described(), "'"));
  ExprPtr tuple = Make(Expr::Kind::kTuple, line);
  tuple->items = std::move(items);
  return Sealed(std::move(tuple));
}

ExprPtr ExpressionParser::ListLiteral() {
  ExprPtr node = Make(Expr::Kind::kList, Next().line);
  while (!IsOp("]")) {
    if (!node->items.empty()) ExpectOp(",");
    if (IsOp("]")) break;
    node->items.push_back(Expression());
  }
  ExpectOp("]");
  return Sealed(std::move(node));
}

ExprPtr ExpressionParser::DictLiteral() {
  ExprPtr node = Make(Expr::Kind::kDict, Next().line);
  while (!IsOp("}")) {
    if (!node->items.empty()) ExpectOp(",");
    if (IsOp("}")) break;
    node->items.push_back(Expression());
    ExpectOp(":");
    node->items.push_back(Expression());
  }
  ExpectOp("}");
  return Sealed(std::move(node));
}

ExprPtr ExpressionParser::Postfix(ExprPtr node) {
  while (true) {
    if (IsOp(".") || IsOp("[")) {
      node = Subscript(std::move(node));
    } else if (IsOp("(")) {
      node = Call(std::move(node));
    } else {
      return node;
    }
  }
}

ExprPtr ExpressionParser::Subscript(ExprPtr node) {
  const Token token = Next();
  if (token.text == ".") {
    const Token name = Next();
    if (name.kind == Token::Kind::kName) {
      node = Make(Expr::Kind::kAttribute, token.line, std::move(node));
      node->text = name.text;
      node->may_be_key = !IsDictAttribute(name.text);
      return Sealed(std::move(node));
    }
    if (name.kind != Token::Kind::kInteger) Error("expected name or number");
    ExprPtr index = Make(Expr::Kind::kConst, name.line);
    index->constant = IntegerConstant(name.text, name.line);
    return Sealed(Make(Expr::Kind::kItem, token.line, std::move(node), std::move(index)));
  }
  node = Subscribed(std::move(node), token.line);
  if (IsOp(",")) Error("a subscript of several values is not supported");
  ExpectOp("]");
  return node;
}

ExprPtr ExpressionParser::Subscribed(ExprPtr object, int line) {
  ExprPtr begin, end, step;
  if (!IsOp(":")) {
    begin = Expression();
    if (!IsOp(":")) return Sealed(Make(Expr::Kind::kItem, line, std::move(object), std::move(begin)));
  }
  ExpectOp(":");
  if (!IsOp(":") && !IsOp("]") && !IsOp(",")) end = Expression();
  if (SkipOp(":") && !IsOp("]") && !IsOp(",")) step = Expression();
  ExprPtr node = Make(Expr::Kind::kSlice, line, std::move(object));
  node->items.push_back(std::move(begin));
  node->items.push_back(std::move(end));
  node->items.push_back(std::move(step));
  return Sealed(std::move(node));
}

void ExpressionParser::CallArgumentsInto(CallArguments& arguments) {
  ExpectOp("(");
  const auto ensure = [this](bool fine) {
    if (!fine) Error("invalid syntax for function call expression");
  };
  bool first = true;
  while (!IsOp(")")) {
    if (!std::exchange(first, false)) {
      ExpectOp(",");
      if (IsOp(")")) break;
    }
    if (SkipOp("*")) {
      ensure(arguments.star == nullptr && arguments.double_star == nullptr);
      arguments.star = Expression();
    } else if (SkipOp("**")) {
      ensure(arguments.double_star == nullptr);
      arguments.double_star = Expression();
    } else if (current().kind == Token::Kind::kName && look().kind == Token::Kind::kOperator && look().text == "=") {
      ensure(arguments.double_star == nullptr);
      const std::string name = Next().text;
      Next();
      arguments.named.emplace_back(name, Expression());
    } else {
      ensure(arguments.star == nullptr && arguments.double_star == nullptr && arguments.named.empty());
      arguments.positional.push_back(Expression());
    }
  }
  ExpectOp(")");
}

ExprPtr ExpressionParser::Call(ExprPtr node) {
  node = Make(Expr::Kind::kCall, current().line, std::move(node));
  CallArgumentsInto(node->arguments);
  return Sealed(std::move(node));
}

ExprPtr ExpressionParser::Filters(ExprPtr node, bool inline_first) {
  while (IsOp("|") || inline_first) {
    if (!inline_first) Next();
    inline_first = false;
    const Token name = Expect(Token::Kind::kName, "the name of a filter");
    auto filter = Make(Expr::Kind::kFilter, name.line);
    filter->items.push_back(std::move(node));
    filter->text = name.text;
    while (SkipOp(".")) filter->text += "." + Expect(Token::Kind::kName, "a name").text;
    if (IsOp("(")) CallArgumentsInto(filter->arguments);
    filter->filter = FindFilter(filter->text);
    node = Sealed(std::move(filter));
  }
  return node;
}

ExprPtr ExpressionParser::TestAfterIs(ExprPtr node) {
  const bool negated = SkipName("not");
  const Token name = Expect(Token::Kind::kName, "the name of a test");
  node = Make(Expr::Kind::kTest, name.line, std::move(node));
  node->text = name.text;
  while (SkipOp(".")) node->text += "." + Expect(Token::Kind::kName, "a name").text;
  const Token::Kind kind = current().kind;
  const bool value_follows = (kind == Token::Kind::kName && !IsName("else") && !IsName("or") && !IsName("and")) ||
                             kind == Token::Kind::kString || kind == Token::Kind::kInteger ||
                             kind == Token::Kind::kFloat || IsOp("[") || IsOp("{");
  if (IsOp("(")) {
    CallArgumentsInto(node->arguments);
  } else if (value_follows) {
    if (IsName("is")) Error("You cannot chain multiple tests with is");
    const NestingGuard nested(this);
    node->arguments.positional.push_back(Postfix(Primary()));
  }
  node->test = FindTest(node->text);
  const int line = node->line;
  node = Sealed(std::move(node));
  return negated ? Sealed(Make(Expr::Kind::kNot, line, std::move(node))) : std::move(node);
}

}  // namespace ingot::text::jinja
