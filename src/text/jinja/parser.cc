#include "text/jinja/parser.h"

#include <algorithm>

namespace ingot::text::jinja {
namespace {

using Kind = Stmt::Kind;

// Reports unknown filters and tests when the template is parsed. In the branches of a condition, they fail only when
// evaluated, as in jinja2.
class NameCheck {
 public:
  void Check(const Block& block, bool soft) {
    for (const auto& statement : block) Check(*statement, soft);
  }

 private:
  void Check(const Stmt& statement, bool soft) {
    const bool branch = statement.kind == Kind::kIf;
    for (const ExprPtr& expr : statement.exprs) Check(expr, soft);
    for (const ExprPtr& expr : statement.signature.defaults) Check(expr, false);
    for (const auto& [test, body] : statement.branches) {
      Check(test, true);
      Check(body, true);
    }
    Check(statement.body, false);
    Check(statement.else_body, branch);
  }

  void Check(const ExprPtr& expr, bool soft) {
    if (expr == nullptr) return;
    if (expr->kind == Expr::Kind::kFilter && expr->filter == nullptr && !soft) {
      FailSyntax(absl::StrCat("No filter named '", expr->text, "'."), expr->line);
    }
    if (expr->kind == Expr::Kind::kTest && expr->test == nullptr && !soft) {
      FailSyntax(absl::StrCat("No test named '", expr->text, "'."), expr->line);
    }
    soft = soft || expr->kind == Expr::Kind::kCondition;
    for (const ExprPtr& child : expr->items) Check(child, soft);
    for (const ExprPtr& child : expr->arguments.positional) Check(child, soft);
    for (const auto& [name, child] : expr->arguments.named) Check(child, soft);
    Check(expr->arguments.star, soft);
    Check(expr->arguments.double_star, soft);
  }
};

class Parser : public ExpressionParser {
 public:
  using ExpressionParser::ExpressionParser;

  Ast Run() {
    Ast ast;
    ast.loop_slot = Slot("loop");
    ast.caller_slot = Slot("caller");
    ast.varargs_slot = Slot("varargs");
    ast.kwargs_slot = Slot("kwargs");
    ast.body = Body({});
    NameCheck().Check(ast.body, false);
    ast.names = names_;
    return ast;
  }

 private:
  std::unique_ptr<Stmt> New(Kind kind, int line) {
    auto statement = std::make_unique<Stmt>();
    statement->kind = kind;
    statement->line = line;
    return statement;
  }

  // Parses statements up to one of the names in `ends`, which stays the current token. If `ends` is empty, parses up to
  // the template's end.
  Block Body(std::initializer_list<const char*> ends) {
    const NestingGuard nested(this);
    Block body;
    while (current().kind != Token::Kind::kEnd) {
      const int line = current().line;
      if (current().kind == Token::Kind::kData) {
        ExprPtr text = Make(Expr::Kind::kConst, line);
        text->constant = Value::Text(Next().text);
        AddOutput(body, std::move(text));
      } else if (current().kind == Token::Kind::kVariableBegin) {
        Next();
        AddOutput(body, TupleExpression(true));
        Expect(Token::Kind::kVariableEnd, "end of print statement");
      } else {
        Expect(Token::Kind::kBlockBegin, "begin of statement block");
        if (std::any_of(ends.begin(), ends.end(), [this](const char* end) { return IsName(end); })) return body;
        if (auto statement = Statement(ends)) body.push_back(std::move(statement));
        Expect(Token::Kind::kBlockEnd, "end of statement block");
      }
    }
    if (ends.size() > 0) {
      Error(absl::StrCat("Unexpected end of template. Jinja was looking for the tag '", *(ends.end() - 1), "'"));
    }
    return body;
  }

  void AddOutput(Block& body, ExprPtr expr) {
    if (body.empty() || body.back()->kind != Kind::kOutput) body.push_back(New(Kind::kOutput, expr->line));
    body.back()->exprs.push_back(std::move(expr));
  }

  // Parses from after the tag's head through its end tag.
  Block BodyUntil(const char* end) {
    EndOfHead();
    Block body = Body({end});
    Next();
    return body;
  }
  void EndOfHead() {
    SkipOp(":");
    Expect(Token::Kind::kBlockEnd, "end of statement block");
  }

  std::unique_ptr<Stmt> Statement(std::initializer_list<const char*> ends) {
    const Token tag = Expect(Token::Kind::kName, "a tag name");
    const std::string& name = tag.text;
    if (name == "if") return If(tag.line);
    if (name == "for") return For(tag.line);
    if (name == "set") return Set(tag.line);
    if (name == "macro") return Macro(tag.line);
    if (name == "call") return CallBlock(tag.line);
    if (name == "generation") return Generation(tag.line);
    if (name == "with") return With(tag.line);
    if (name == "filter") return FilterBlock(tag.line);
    if (name == "print") return Print(tag.line);
    if (name == "break" || name == "continue") {
      if (loops_ == 0) FailSyntax(absl::StrCat("'", name, "' outside loop"), tag.line);
      return New(name == "break" ? Kind::kBreak : Kind::kContinue, tag.line);
    }
    for (const char* known : {"block", "extends", "include", "import", "from", "autoescape"}) {
      if (name == known) FailSyntax(absl::StrCat("the tag '", name, "' is not supported in a chat template"), tag.line);
    }
    std::string message = absl::StrCat("Encountered unknown tag '", name, "'.");
    if (ends.size() > 0) absl::StrAppend(&message, " Jinja was looking for '", *(ends.end() - 1), "'.");
    FailSyntax(message, tag.line);
  }

  std::unique_ptr<Stmt> If(int line) {
    auto statement = New(Kind::kIf, line);
    while (true) {
      ExprPtr test = TupleExpression(false);
      EndOfHead();
      Block body = Body({"elif", "else", "endif"});
      statement->branches.emplace_back(std::move(test), std::move(body));
      const Token tag = Next();
      if (tag.text == "elif") continue;
      if (tag.text == "else") statement->else_body = BodyUntil("endif");
      return statement;
    }
  }

  std::unique_ptr<Stmt> For(int line) {
    auto statement = New(Kind::kFor, line);
    statement->target = Target(false, "in");
    CheckNoLoop(*statement->target);
    ExpectName("in");
    statement->exprs.push_back(TupleExpression(false, "recursive"));
    statement->exprs.push_back(SkipName("if") ? Expression() : nullptr);
    statement->recursive = SkipName("recursive");
    EndOfHead();
    ++loops_;
    statement->body = Body({"endfor", "else"});
    --loops_;
    if (Next().text == "else") statement->else_body = BodyUntil("endfor");
    return statement;
  }

  void CheckNoLoop(const Expr& target) const {
    if (target.kind == Expr::Kind::kName && target.text == "loop") {
      FailSyntax("Can't assign to special loop variable in for-loop target", target.line);
    }
    for (const ExprPtr& item : target.items) CheckNoLoop(*item);
  }

  std::unique_ptr<Stmt> Set(int line) {
    auto statement = New(Kind::kSet, line);
    statement->target = Target(true);
    if (SkipOp("=")) {
      statement->exprs.push_back(TupleExpression(true));
      return statement;
    }
    statement->kind = Kind::kSetBlock;
    if (IsOp("|")) statement->exprs.push_back(Filters(nullptr, false));
    statement->body = BodyUntil("endset");
    return statement;
  }

  void ParseSignature(Signature& signature) {
    ExpectOp("(");
    while (!IsOp(")")) {
      if (!signature.names.empty()) ExpectOp(",");
      ExprPtr name = NameTarget();
      signature.names.emplace_back(name->text, name->slot);
      if (SkipOp("=")) {
        signature.defaults.push_back(Expression());
      } else if (!signature.defaults.empty()) {
        Error("non-default argument follows default argument");
      }
    }
    ExpectOp(")");
  }

  // Parses the body of a macro or call block. Loops around it do not extend into it.
  void CallableBody(Stmt& statement, const char* end) {
    const size_t loaded = loaded_.size();
    const int loops = std::exchange(loops_, 0);
    statement.body = BodyUntil(end);
    loops_ = loops;
    const auto uses = [&](const char* name) {
      return std::find(loaded_.begin() + static_cast<std::ptrdiff_t>(loaded), loaded_.end(), name) != loaded_.end();
    };
    statement.signature.uses_caller = uses("caller");
    statement.signature.uses_varargs = uses("varargs");
    statement.signature.uses_kwargs = uses("kwargs");
  }

  std::unique_ptr<Stmt> Macro(int line) {
    auto statement = New(Kind::kMacro, line);
    ExprPtr name = NameTarget();
    statement->text = name->text;
    statement->slot = name->slot;
    ParseSignature(statement->signature);
    CallableBody(*statement, "endmacro");
    return statement;
  }

  std::unique_ptr<Stmt> CallBlock(int line) {
    auto statement = New(Kind::kCallBlock, line);
    if (IsOp("(")) ParseSignature(statement->signature);
    statement->exprs.push_back(Expression());
    if (statement->exprs[0]->kind != Expr::Kind::kCall) FailSyntax("expected call", line);
    CallableBody(*statement, "endcall");
    return statement;
  }

  std::unique_ptr<Stmt> Generation(int line) {
    auto statement = New(Kind::kGeneration, line);
    CallableBody(*statement, "endgeneration");
    return statement;
  }

  std::unique_ptr<Stmt> With(int line) {
    auto statement = New(Kind::kWith, line);
    while (current().kind != Token::Kind::kBlockEnd) {
      if (!statement->targets.empty()) ExpectOp(",");
      statement->targets.push_back(SkipOp("(") ? ParenthesisedTarget() : NameTarget());
      ExpectOp("=");
      statement->exprs.push_back(Expression());
    }
    statement->body = BodyUntil("endwith");
    return statement;
  }
  ExprPtr ParenthesisedTarget() {
    ExprPtr target = Target(false);
    ExpectOp(")");
    return target;
  }

  std::unique_ptr<Stmt> FilterBlock(int line) {
    auto statement = New(Kind::kFilterBlock, line);
    statement->exprs.push_back(Filters(nullptr, true));
    statement->body = BodyUntil("endfilter");
    return statement;
  }

  std::unique_ptr<Stmt> Print(int line) {
    auto statement = New(Kind::kOutput, line);
    while (current().kind != Token::Kind::kBlockEnd) {
      if (!statement->exprs.empty()) ExpectOp(",");
      statement->exprs.push_back(Expression());
    }
    return statement;
  }

  int loops_ = 0;
};

}  // namespace

Ast ParseTemplate(std::string_view source) { return Parser(Tokenize(source)).Run(); }

}  // namespace ingot::text::jinja
