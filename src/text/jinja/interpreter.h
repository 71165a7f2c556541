// Runs a parsed template once.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "text/jinja/ast.h"
#include "text/jinja/iteration_memo.h"
#include "text/jinja/iteration_run.h"
#include "text/jinja/loop.h"
#include "text/jinja/template.h"
#include "text/jinja/tracked_index.h"

namespace ingot::text::jinja {

// Variables of one level: a loop's iteration, a macro's call, a block. What a name means is looked up from the inside
// out; assignments stay on their level.
struct Scope {
  std::shared_ptr<Scope> parent;
  uint64_t born = 0;                             // how many scopes the rendering had made before
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
  struct Found {
    const Value* value;    // until a variable is set
    bool given = false;    // no scope has it
    bool outside = false;  // of the iteration that is recorded
  };
  Found Lookup(int slot, const Scope* scope);
  Found Named(const Expr& expr, const ScopePtr& scope);
  bool Compares(const Expr& expr, const ScopePtr& scope);
  Value CallExpr(const Expr& expr, const ScopePtr& scope, const Value* caller);
  Value ApplyFilter(const Expr& expr, const ScopePtr& scope, const StrPtr& block);
  Args Arguments(const CallArguments& arguments, const ScopePtr& scope);
  bool WritesToRoot() const { return out_ == &root_out_; }
  ScopePtr Inner(const ScopePtr& parent);
  // Makes `scope` one that Inner(parent) would give, of what it was for an earlier iteration if nothing holds that.
  void Renew(ScopePtr& scope, const ScopePtr& parent);

  // A loop's body for its current item, a tracked one, run or as it was kept in `cache` (null: there is none), and
  // what of it can be part of a run (null: none is made). REQUIRES: it writes to the root.
  Flow Iterate(const Stmt& statement, const LoopObject& loop, const ScopePtr& inner, IterationCache* cache,
               RunComposer* run);
  Flow Record(const Stmt& statement, const LoopObject& loop, const ScopePtr& inner, IterationCache* cache,
              RunComposer* run);
  // The iterations of a loop that RenderOptions keeps together.
  struct RunState {
    static constexpr size_t kNowhere = static_cast<size_t>(-1);
    size_t at = kNowhere;         // items of the loop before theirs; kNowhere: it has none, or has come to them
    size_t first = 0, count = 0;  // of the tracked ones
    bool reversed = false;        // as RunMemo says
    std::shared_ptr<const RunMemo> known;  // what is kept of them, or of the first of them; null: nothing
    size_t known_at = kNowhere;            // items of the loop before those of `known`
    std::optional<RunComposer> composer;   // of a run to be kept, which the loop is in
    StrBuilder::Place begin = {};
    size_t passes = 0, generations = 0;  // before
  };
  RunState FindRun(const Stmt& statement, const LoopObject& loop) const;
  // The loop has come to the run, or to what is kept of it: takes that over, if it holds, and composes what is not
  // kept as a whole. Returns what was taken over; null: nothing.
  std::shared_ptr<const RunMemo> EnterRun(const Stmt& statement, RunState& run, LoopObject& loop,
                                          const ScopePtr& scope);
  bool RunHolds(const RunMemo& memo, const RunState& run, const LoopObject& loop, const ScopePtr& scope);
  void ReplayRun(const RunMemo& memo, LoopObject& loop, const ScopePtr& scope);
  void KeepRun(const Stmt& statement, RunState& run);
  bool Holds(const IterationMemo& memo, const LoopObject& loop, const Scope* outside);
  bool Holds(const IterationMemo::Read& read, const LoopObject& loop, const Scope* outside);
  void Replay(const IterationMemo& memo, const Scope* outside);
  // What is recorded of evaluating a name, and an attribute or an item of one.
  void NoteName(int slot, const Found& found);
  Value NotedAttribute(const Expr& expr, const ScopePtr& scope);
  Value NotedItem(const Expr& expr, const ScopePtr& scope);
  // A sum that counts from the end of the recorded loop; nullopt: it is none.
  std::optional<Value> NotedPlace(const Expr& expr, const ScopePtr& scope);
  bool IsGiven(const Value& value) const { return tracked_.Find(value).has_value(); }

  const Ast& ast_;
  const RenderOptions& options_;
  std::vector<std::optional<Value>> globals_;  // by slot: variables given, functions, and what was found undefined
  const TrackedIndex tracked_;
  StrBuilder root_out_;
  StrBuilder* out_ = &root_out_;
  std::vector<Rendered::Pass> passes_;
  std::vector<std::pair<size_t, size_t>> generations_;
  uint64_t scopes_ = 0;             // made so far
  Recording* recording_ = nullptr;  // of the iteration that is run
  std::vector<ScopePtr> captured_;  // scopes that macros hold, and that hold them
  int depth_ = 0;
};

}  // namespace ingot::text::jinja
