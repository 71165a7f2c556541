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

// The variables at one level: a loop iteration, a macro call, or a block. Names are looked up from the innermost level
// outward. Assignments set the innermost level.
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
  // Implements Template::RenderAtPrompt for the variable `flag`. Runs the first `common` statements once, and the
  // remaining statements with both values of the flag. `rejected` receives the error, if any, for the value true.
  // REQUIRES: the remaining statements do not change any values (SplitAt).
  PromptRendering RunToPrompt(int flag, size_t common, bool prompted, std::optional<TemplateError>& rejected);

  // Runs a macro or call block body with its arguments. `name` is for errors.
  Value CallBody(const Stmt& statement, const ScopePtr& closure, const Args& args, const std::string& name);

 private:
  enum class Flow { kNormal, kBreak, kContinue };
  // Charges one step and limits the depth of nested evaluations.
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
  // Runs one loop over `iterable`. `depth0` is the depth in a recursive loop.
  Flow Loop(const Stmt& statement, const ScopePtr& scope, const Value& iterable, int depth0);
  void ExecuteSetBlock(const Stmt& statement, const ScopePtr& scope);
  void ExecuteCallBlock(const Stmt& statement, const ScopePtr& scope);
  Value MakeMacro(const Stmt& statement, const ScopePtr& scope, const std::string& name);
  // Returns the text that `block` writes.
  StrPtr Captured(const Block& block, const ScopePtr& scope);
  void Assign(const Expr& target, Value value, const ScopePtr& scope);

  Value Evaluate(const Expr& expr, const ScopePtr& scope);
  Value EvaluateInner(const Expr& expr, const ScopePtr& scope);
  // Like Evaluate, but avoids a copy if possible, and otherwise stores the result in `room`. Valid until the next
  // evaluation, which may change a variable.
  const Value& Refer(const Expr& expr, const ScopePtr& scope, Value& room);
  // Returns the dict field that an attribute refers to, or null if the object is not a dict or lacks the field.
  const Value* ReferToField(const Expr& expr, const ScopePtr& scope);
  bool IsTrue(const Expr& condition, const ScopePtr& scope);
  Value Optional(const ExprPtr& expr, const ScopePtr& scope);
  // Returns the variable's value, valid until a variable is set.
  const Value& Lookup(int slot, const ScopePtr& scope);
  bool Compares(const Expr& expr, const ScopePtr& scope);
  Value CallExpr(const Expr& expr, const ScopePtr& scope, const Value* caller);
  Value ApplyFilter(const Expr& expr, const ScopePtr& scope, const StrPtr& block);
  Args Arguments(const CallArguments& arguments, const ScopePtr& scope);
  bool WritesToRoot() const { return out_ == &root_out_; }
  ScopePtr Inner(const ScopePtr& parent);
  // Sets `scope` to a new scope inside `parent`. Reuses the scope of an earlier iteration if nothing else references
  // it.
  void Renew(ScopePtr& scope, const ScopePtr& parent);

  // Records the text from `begin` on as a pass over `item`, if `item` is tracked.
  void AddPass(const Value& item, size_t begin);

  const Ast& ast_;
  const RenderOptions& options_;
  std::vector<std::optional<Value>> globals_;  // by slot: given variables, functions, and names that were not found
  std::unordered_map<const Dict*, size_t> tracked_;  // index in RenderOptions::tracked
  StrBuilder root_out_;
  StrBuilder* out_ = &root_out_;
  std::vector<RenderedText::Pass> passes_;
  std::vector<std::pair<size_t, size_t>> generations_;
  std::vector<ScopePtr> captured_;  // scopes with cyclic references through macros; cleared at the end
  int depth_ = 0;
};

}  // namespace ingot::text::jinja
