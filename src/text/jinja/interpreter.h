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

// Variables of one level: a loop's iteration, a macro's call, a block. What a name means is looked up from the inside
// out; assignments stay on their level.
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
  Rendered Run();
  // Template::RenderAtPrompt by the variable `flag`: the first `common` statements are run once, and what stands behind
  // them, which must leave values as they are (IsRepeatable), with either value. `refused`: why it fails with true.
  PromptRendering RunToPrompt(int flag, size_t common, bool prompted, std::optional<TemplateError>& refused);

  // A macro or a call block's body with its arguments; `name` is for errors.
  Value CallBody(const Stmt& statement, const ScopePtr& closure, const Args& args, const std::string& name);

 private:
  enum class Flow { kNormal, kBreak, kContinue };
  // Counts nested evaluations, and each as a step.
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
  // One loop over `iterable`, at depth0 of a recursive one.
  Flow Loop(const Stmt& statement, const ScopePtr& scope, const Value& iterable, int depth0);
  void ExecuteSetBlock(const Stmt& statement, const ScopePtr& scope);
  void ExecuteCallBlock(const Stmt& statement, const ScopePtr& scope);
  Value MakeMacro(const Stmt& statement, const ScopePtr& scope, const std::string& name);
  // What `block` writes.
  StrPtr Captured(const Block& block, const ScopePtr& scope);
  void Assign(const Expr& target, Value value, const ScopePtr& scope);

  Value Evaluate(const Expr& expr, const ScopePtr& scope);
  Value EvaluateInner(const Expr& expr, const ScopePtr& scope);
  // The same where it lies, without a copy, or else in `room`: to be looked at, or copied, before anything else is
  // evaluated, which may change a variable.
  const Value& Refer(const Expr& expr, const ScopePtr& scope, Value& room);
  // What the attribute of a dict refers to; null: it is none, or is not in the dict.
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
  // Makes `scope` one that Inner(parent) would give, of what it was for an earlier iteration if nothing holds that.
  void Renew(ScopePtr& scope, const ScopePtr& parent);

  // Notes what an iteration over `item` wrote from `begin` on, if `item` is tracked.
  void AddPass(const Value& item, size_t begin);

  const Ast& ast_;
  const RenderOptions& options_;
  std::vector<std::optional<Value>> globals_;  // by slot: variables given, functions, and what was found undefined
  std::unordered_map<const Dict*, size_t> tracked_;  // index in RenderOptions::tracked
  StrBuilder root_out_;
  StrBuilder* out_ = &root_out_;
  std::vector<Rendered::Pass> passes_;
  std::vector<std::pair<size_t, size_t>> generations_;
  std::vector<ScopePtr> captured_;  // scopes that macros hold, and that hold them
  int depth_ = 0;
};

}  // namespace ingot::text::jinja
