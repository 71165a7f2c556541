// Runs a parsed template once.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "text/jinja/ast.h"
#include "text/jinja/loop.h"
#include "text/jinja/template.h"

namespace ingot::text::jinja {

// The variables of one level: of a loop's iteration, a macro's call or a block. A name is looked up from the inside
// out; an assignment sets the innermost level.
struct Scope {
  std::shared_ptr<Scope> parent;
  std::vector<std::pair<int, Value>> variables;  // by slot

  const Value* Find(int slot) const;
  void Set(int slot, Value value);
};
using ScopePtr = std::shared_ptr<Scope>;

class Interpreter : public Runtime {
 public:
  Interpreter(const Ast& ast, const RenderOptions& options, std::timespec now);
  ~Interpreter();

  // Throws TemplateError.
  RenderedText Run();
  // Template::RenderAtPrompt for the variable `flag`. Runs the first `common` statements once, and the statements after
  // them with both values; they must not change any value (SplitAt). `rejected`: the error with the value true.
  PromptRendering RunToPrompt(int flag, size_t common, bool prompted, std::optional<TemplateError>& rejected);

  // Runs the body of a macro or call block with its arguments; `name` is for errors.
  Value CallBody(const Stmt& statement, const ScopePtr& closure, const Args& args, const std::string& name);

 private:
  enum class Flow { kNormal, kBreak, kContinue };
  // Charges a step and bounds the depth of nested evaluations.
  class Level {
   public:
    explicit Level(Interpreter* interpreter);
    ~Level() { --interpreter_->depth_; }

   private:
    Interpreter* const interpreter_;
  };

  void Print(const Expr& expr, const ScopePtr& scope);
  Flow Execute(const Block& block, const ScopePtr& scope);
  Flow Execute(const Stmt& statement, const ScopePtr& scope);
  Flow ExecuteFor(const Stmt& statement, const ScopePtr& scope);
  // Runs one loop over `iterable`; `depth0` is its depth in a recursive loop.
  Flow Loop(const Stmt& statement, const ScopePtr& scope, const Value& iterable, int depth0);
  void ExecuteSetBlock(const Stmt& statement, const ScopePtr& scope);
  void ExecuteCallBlock(const Stmt& statement, const ScopePtr& scope);
  Value MakeMacro(const Stmt& statement, const ScopePtr& scope, const std::string& name);
  // The text that `block` writes.
  StrPtr Captured(const Block& block, const ScopePtr& scope);
  void Assign(const Expr& target, Value value, const ScopePtr& scope);

  Value Evaluate(const Expr& expr, const ScopePtr& scope);
  Value EvaluateInner(const Expr& expr, const ScopePtr& scope);
  // The same without a copy if possible, else stored in `room`. The result is valid until the next evaluation, which
  // may change a variable.
  const Value& Refer(const Expr& expr, const ScopePtr& scope, Value& room);
  // The field that an attribute of a dict names; null: the object is not a dict, or has no such field.
  const Value* ReferToField(const Expr& expr, const ScopePtr& scope);
  bool IsTrue(const Expr& condition, const ScopePtr& scope);
  Value Optional(const ExprPtr& expr, const ScopePtr& scope);
  // The variable's value, valid until a variable is set.
  const Value& Lookup(int slot, const ScopePtr& scope);
  bool Compares(const Expr& expr, const ScopePtr& scope);
  Value CallExpr(const Expr& expr, const ScopePtr& scope, const Value* caller);
  Value ApplyFilter(const Expr& expr, const ScopePtr& scope, const StrPtr& block);
  Args Arguments(const CallArguments& arguments, const ScopePtr& scope);
  bool WritesToRoot() const { return out_ == &root_out_; }
  ScopePtr Inner(const ScopePtr& parent);
  // Sets `scope` to a fresh scope in `parent`. Reuses the scope of an earlier iteration if nothing else holds it.
  void Renew(ScopePtr& scope, const ScopePtr& parent);

  // Records the text from `begin` on as a pass over `item`, if `item` is tracked.
  void AddPass(const Value& item, size_t begin);

  const Ast& ast_;
  const RenderOptions& options_;
  std::vector<std::optional<Value>> globals_;        // by slot: given variables, functions, names looked up in vain
  std::unordered_map<const Dict*, size_t> tracked_;  // index in RenderOptions::tracked
  StrBuilder root_out_;
  StrBuilder* out_ = &root_out_;
  std::vector<RenderedText::Pass> passes_;
  std::vector<std::pair<size_t, size_t>> generations_;
  std::vector<ScopePtr> captured_;  // scopes that hold a macro that holds them: emptied at the end
  int depth_ = 0;
};

}  // namespace ingot::text::jinja
