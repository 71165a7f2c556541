// Implements Interpreter's expressions.
#include "text/jinja/budget.h"
#include "text/jinja/interpreter.h"

namespace ingot::text::jinja {
namespace {

bool IsBare(const CallArguments& arguments) {
  return arguments.positional.empty() && arguments.named.empty() && arguments.star == nullptr &&
         arguments.double_star == nullptr;
}

}  // namespace

Value Interpreter::Evaluate(const Expr& expr, const ScopePtr& scope) {
  if (expr.kind == Expr::Kind::kConst) return expr.constant;
  if (expr.kind == Expr::Kind::kName) return Lookup(expr.slot, scope);
  if (expr.kind == Expr::Kind::kAttribute) {
    if (const Value* field = ReferToField(expr, scope)) return *field;
  }
  const Level level(this);
  try {
    return EvaluateInner(expr, scope);
  } catch (TemplateError& error) {
    if (error.line == 0) error.line = expr.line;
    throw;
  }
}

Value Interpreter::Optional(const ExprPtr& expr, const ScopePtr& scope) {
  return expr == nullptr ? Value() : Evaluate(*expr, scope);
}

const Value& Interpreter::Refer(const Expr& expr, const ScopePtr& scope, Value& room) {
  if (expr.kind == Expr::Kind::kConst) return expr.constant;
  if (expr.kind == Expr::Kind::kName) return Lookup(expr.slot, scope);
  if (expr.kind == Expr::Kind::kAttribute) {
    if (const Value* field = ReferToField(expr, scope)) return *field;
  }
  room = Evaluate(expr, scope);
  return room;
}

// A fast path for `message.content`, the most frequent expression in templates.
const Value* Interpreter::ReferToField(const Expr& expr, const ScopePtr& scope) {
  const Expr& object = *expr.items[0];
  if (object.kind != Expr::Kind::kName || !expr.may_be_key) return nullptr;
  const Value& named = Lookup(object.slot, scope);
  const Value* const field = named.is_dict() ? named.dict()->Find(expr.text) : nullptr;
  if (field != nullptr) ChargeSteps(1);
  return field;
}

bool Interpreter::IsTrue(const Expr& condition, const ScopePtr& scope) {
  Value room;
  return Truth(Refer(condition, scope, room));
}

const Value& Interpreter::Lookup(int slot, const ScopePtr& scope) {
  for (const Scope* at = scope.get(); at != nullptr; at = at->parent.get()) {
    if (const Value* value = at->Find(slot)) return *value;
  }
  auto& global = globals_[slot];
  if (!global.has_value()) global = Value::UndefinedWith(absl::StrCat("'", ast_.names[slot], "' is undefined"));
  return *global;
}

Value Interpreter::EvaluateInner(const Expr& expr, const ScopePtr& scope) {
  const auto item = [&](size_t i) { return Evaluate(*expr.items[i], scope); };
  switch (expr.kind) {
    case Expr::Kind::kConst:
      return expr.constant;
    case Expr::Kind::kName:
      return Lookup(expr.slot, scope);
    case Expr::Kind::kAttribute: {
      Value room;
      return GetAttribute(Refer(*expr.items[0], scope, room), expr.text);
    }
    case Expr::Kind::kItem: {
      const Value object = item(0);
      return GetItem(object, item(1));
    }
    case Expr::Kind::kSlice: {
      const Value object = item(0), begin = Optional(expr.items[1], scope), end = Optional(expr.items[2], scope);
      return Slice(object, begin, end, Optional(expr.items[3], scope));
    }
    case Expr::Kind::kCall:
      return CallExpr(expr, scope, nullptr);
    case Expr::Kind::kFilter:
      return ApplyFilter(expr, scope, nullptr);
    case Expr::Kind::kTest: {
      if (IsBare(expr.arguments) && expr.test != nullptr) {
        Value room;
        return Value(RunTest(*this, expr.test, Refer(*expr.items[0], scope, room), Args()));
      }
      const Value subject = item(0);
      const Args args = Arguments(expr.arguments, scope);
      if (expr.test == nullptr) Fail(absl::StrCat("TemplateRuntimeError: No test named '", expr.text, "'."));
      return Value(RunTest(*this, expr.test, subject, args));
    }
    case Expr::Kind::kList:
    case Expr::Kind::kTuple: {
      std::vector<Value> items;
      for (const ExprPtr& child : expr.items) items.push_back(Evaluate(*child, scope));
      return MakeSeq(expr.kind == Expr::Kind::kList ? Seq::Kind::kList : Seq::Kind::kTuple, std::move(items));
    }
    case Expr::Kind::kDict: {
      DictBuilder dict;
      for (size_t i = 0; i < expr.items.size(); i += 2) {
        const Value key = item(i);
        dict.Set(key, item(i + 1));
      }
      return dict.Release();
    }
    case Expr::Kind::kNot:
      return Value(!IsTrue(*expr.items[0], scope));
    case Expr::Kind::kNegate:
      return Negate(item(0));
    case Expr::Kind::kPlus:
      return Plus(item(0));
    case Expr::Kind::kAnd: {
      Value left = item(0);
      return Truth(left) ? item(1) : left;
    }
    case Expr::Kind::kOr: {
      Value left = item(0);
      return Truth(left) ? left : item(1);
    }
    case Expr::Kind::kBinary: {
      const Value left = item(0);
      return Arithmetic(*this, expr.op, left, item(1));
    }
    case Expr::Kind::kConcat: {
      StrBuilder text;
      for (const ExprPtr& child : expr.items) PrintTo(Evaluate(*child, scope), text);
      return Value(text.Release());
    }
    case Expr::Kind::kCompare:
      return Value(Compares(expr, scope));
    case Expr::Kind::kCondition:
      if (IsTrue(*expr.items[1], scope)) return item(0);
      if (expr.items.size() > 2) return item(2);
      return Value::UndefinedWith("the inline if-expression evaluated to false and no else section was defined.");
  }
  return Value();
}

bool Interpreter::Compares(const Expr& expr, const ScopePtr& scope) {
  Value left = Evaluate(*expr.items[0], scope);
  for (size_t i = 0; i < expr.ops.size(); ++i) {
    Value room;
    const Value& right = Refer(*expr.items[i + 1], scope, room);
    const std::string& op = expr.ops[i];
    bool holds = false;
    if (op == "==" || op == "!=") {
      holds = Equal(left, right) == (op == "==");
    } else if (op == "in" || op == "notin") {
      holds = Contains(right, left) == (op == "in");
    } else {
      const int order = Compare(left, right, op.c_str());  // 2 = unordered (NaN)
      holds = op == "<" ? order == -1 : op == ">" ? order == 1 : op == "<=" ? order <= 0 : order == 0 || order == 1;
    }
    if (!holds) return false;
    if (i + 1 < expr.ops.size()) left = right;
  }
  return true;
}

Args Interpreter::Arguments(const CallArguments& arguments, const ScopePtr& scope) {
  Args args;
  for (const ExprPtr& expr : arguments.positional) args.positional.push_back(Evaluate(*expr, scope));
  for (const auto& [name, expr] : arguments.named) args.named.emplace_back(name, Evaluate(*expr, scope));
  if (arguments.star != nullptr) {
    for (Value& value : Items(Evaluate(*arguments.star, scope))) args.positional.push_back(std::move(value));
  }
  if (arguments.double_star != nullptr) {
    const Value named = Evaluate(*arguments.double_star, scope);
    if (!named.is_dict()) Fail(absl::StrCat("TypeError: argument after ** must be a mapping, not ", TypeName(named)));
    for (const auto& [key, value] : named.dict()->items) {
      if (!key.is_str()) Fail("TypeError: keywords must be strings");
      args.named.emplace_back(key.str()->bytes, value);
    }
  }
  return args;
}

Value Interpreter::CallExpr(const Expr& expr, const ScopePtr& scope, const Value* caller) {
  const Value callee = Evaluate(*expr.items[0], scope);
  Args args = Arguments(expr.arguments, scope);
  if (caller != nullptr) args.named.emplace_back("caller", *caller);
  if (callee.is_undefined()) FailUndefined(callee);
  if (!callee.is_object() || !callee.object()->callable()) {
    Fail(absl::StrCat("TypeError: '", TypeName(callee), "' object is not callable"));
  }
  return callee.object()->Call(*this, args);
}

Value Interpreter::ApplyFilter(const Expr& expr, const ScopePtr& scope, const StrPtr& block) {
  Value value;
  if (expr.items[0] != nullptr) {
    // In a filter block with several filters, the innermost filter gets the block's text.
    const bool chained = block != nullptr && expr.items[0]->kind == Expr::Kind::kFilter;
    value = chained ? ApplyFilter(*expr.items[0], scope, block) : Evaluate(*expr.items[0], scope);
  } else {
    value = Value(block);
  }
  const Args args = Arguments(expr.arguments, scope);
  if (expr.filter == nullptr) Fail(absl::StrCat("TemplateRuntimeError: No filter named '", expr.text, "'."));
  ChargeScan(value.is_str() ? value.str()->bytes.size() : 0);
  return expr.filter(*this, value, args);
}

}  // namespace ingot::text::jinja
