// Implements a recursive descent parser for jinja2's grammar. Used only by ParseTemplate.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/ast.h"
#include "text/jinja/lexer.h"

namespace ingot::text::jinja {

class ParserBase {
 public:
  explicit ParserBase(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

 protected:
  const Token& current() const { return tokens_[at_]; }
  const Token& look() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  Token Next();
  bool IsOp(std::string_view op) const;
  bool IsName(std::string_view name) const;
  bool SkipOp(std::string_view op);
  bool SkipName(std::string_view name);
  void ExpectOp(std::string_view op);
  void ExpectName(std::string_view name);
  Token Expect(Token::Kind kind, const char* what);
  [[noreturn]] void Error(const std::string& what) const;
  std::string Described() const;
  int Slot(const std::string& name);

  // Limits the parser's recursion.
  class NestingGuard {
   public:
    explicit NestingGuard(ParserBase* parser);
    ~NestingGuard() { --parser_->nesting_; }

   private:
    ParserBase* const parser_;
  };

  std::vector<std::string> names_;
  std::vector<std::string> loaded_;  // names read so far, in order; used to detect whether a macro uses `caller`

 private:
  const std::vector<Token> tokens_;
  size_t at_ = 0;
  int nesting_ = 0;
  std::map<std::string, int, std::less<>> slots_;
};

class ExpressionParser : public ParserBase {
 public:
  using ParserBase::ParserBase;

 protected:
  ExprPtr Expression(bool with_condition = true);
  // Parses one expression, or several separated by commas as a tuple. `end` is a name that ends it.
  ExprPtr TupleExpression(bool with_condition, std::string_view end = "", bool parenthesised = false);
  // Parses an assignment target.
  ExprPtr Target(bool with_namespace, std::string_view end = "");
  ExprPtr NameTarget();
  ExprPtr Filters(ExprPtr node, bool inline_first);
  void CallArgumentsInto(CallArguments& arguments);
  static ExprPtr Make(Expr::Kind kind, int line, ExprPtr a = nullptr, ExprPtr b = nullptr, ExprPtr c = nullptr);
  // Sets the depth of `node` from its children. Fails if it exceeds the recursion limit.
  ExprPtr Sealed(ExprPtr node) const;

 private:
  ExprPtr Condition();
  ExprPtr Or();
  ExprPtr And();
  ExprPtr Not();
  ExprPtr Comparison();
  ExprPtr Sum();
  ExprPtr Concatenation();
  ExprPtr Product();
  ExprPtr Power();
  ExprPtr Unary(bool with_filters);
  ExprPtr Primary();
  ExprPtr ListLiteral();
  ExprPtr DictLiteral();
  ExprPtr Postfix(ExprPtr node);
  ExprPtr Subscript(ExprPtr node);
  ExprPtr Subscribed(ExprPtr object, int line);
  ExprPtr Call(ExprPtr node);
  ExprPtr TestAfterIs(ExprPtr node);
};

}  // namespace ingot::text::jinja
