// Implements Interpreter's loops.
#include "text/jinja/budget.h"
#include "text/jinja/interpreter.h"

namespace ingot::text::jinja {

Interpreter::Flow Interpreter::ExecuteFor(const Stmt& statement, const ScopePtr& scope) {
  const Value iterable = Evaluate(*statement.exprs[0], scope);
  return Loop(statement, scope, iterable, 0);
}

Interpreter::Flow Interpreter::Loop(const Stmt& statement, const ScopePtr& scope, const Value& iterable, int depth0) {
  LoopObject::Test test;
  if (statement.exprs[1] != nullptr) {
    test = [this, &statement, scope](const Value& item) {
      const ScopePtr inner = Inner(scope);
      Assign(*statement.target, item, inner);
      return Truth(Evaluate(*statement.exprs[1], inner));
    };
  }
  LoopObject::Recurse recurse;
  if (statement.recursive) {
    recurse = [this, &statement, scope](const Value& inner, int depth) {
      StrBuilder text;
      StrBuilder* const outer = std::exchange(out_, &text);
      try {
        const Level level(this);
        Loop(statement, scope, inner, depth);
      } catch (...) {
        out_ = outer;
        throw;
      }
      out_ = outer;
      return Value(text.Release());
    };
  }
  if (test != nullptr || recurse != nullptr) captured_.push_back(scope);
  if (iterable.is_seq()) ChargeSteps(iterable.seq()->items.size());
  const auto loop = std::make_shared<LoopObject>(SharedItems(iterable), std::move(test), std::move(recurse), depth0);
  const Value loop_value{Value::ObjectPtr(loop)};
  struct AtEnd {
    LoopObject& loop;
    ~AtEnd() { loop.Finish(); }
  } const at_end{*loop};
  bool completed = false;  // an iteration completed; otherwise jinja2 runs `else`
  ScopePtr inner;
  while (loop->Advance()) {
    Renew(inner, scope);
    inner->variables.emplace_back(ast_.loop_slot, loop_value);
    const Value& item = loop->current();
    Assign(*statement.target, item, inner);
    const size_t begin = out_->size();
    const Flow flow = Execute(statement.body, inner);
    if (WritesToRoot() && out_->size() > begin) AddPass(loop->current(), begin);
    if (flow == Flow::kBreak) break;
    completed = completed || flow == Flow::kNormal;
  }
  if (!completed) return Execute(statement.else_body, Inner(scope));
  return Flow::kNormal;
}

void Interpreter::AddPass(const Value& item, size_t begin) {
  if (!item.is_dict()) return;
  const auto tracked = tracked_.find(item.dict().get());
  if (tracked != tracked_.end()) passes_.push_back({tracked->second, begin, root_out_.size()});
}

}  // namespace ingot::text::jinja
