#include "text/jinja/interpreter.h"

#include <algorithm>

#include "text/jinja/budget.h"

namespace ingot::text::jinja {
namespace {

class MacroObject final : public Object {
 public:
  MacroObject(Interpreter* interpreter, const Stmt& statement, ScopePtr closure, std::string name)
      : interpreter_(interpreter), statement_(statement), closure_(std::move(closure)), name_(std::move(name)) {}
  const char* type_name() const override { return "Macro"; }
  std::string Repr() const override { return absl::StrCat("<Macro '", name_, "'>"); }
  bool callable() const override { return true; }
  std::optional<Value> Attribute(std::string_view name) const override {
    const Signature& signature = statement_.signature;
    if (name == "name") return Value::Text(name_);
    if (name == "caller") return Value(signature.uses_caller);
    if (name == "catch_kwargs") return Value(signature.uses_kwargs);
    if (name == "catch_varargs") return Value(signature.uses_varargs);
    if (name != "arguments") return std::nullopt;
    std::vector<Value> arguments;
    for (const auto& [argument, slot] : signature.names) arguments.push_back(Value::Text(argument));
    return MakeTuple(std::move(arguments));
  }
  Value Call(Runtime&, const Args& args) override { return interpreter_->CallBody(statement_, closure_, args, name_); }

 private:
  Interpreter* const interpreter_;
  const Stmt& statement_;
  const ScopePtr closure_;
  const std::string name_;
};

}  // namespace

const Value* Scope::Find(int slot) const {
  for (const auto& [known, value] : variables) {
    if (known == slot) return &value;
  }
  return nullptr;
}

void Scope::Set(int slot, Value value) {
  for (auto& [known, old] : variables) {
    if (known != slot) continue;
    old = std::move(value);
    return;
  }
  variables.emplace_back(slot, std::move(value));
}

ScopePtr Interpreter::Inner(const ScopePtr& parent) {
  ChargeBytes(sizeof(Scope));
  return std::make_shared<Scope>(Scope{parent, {}});
}

void Interpreter::Renew(ScopePtr& scope, const ScopePtr& parent) {
  if (scope == nullptr || scope.use_count() > 1) {
    scope = Inner(parent);
    return;
  }
  ChargeBytes(sizeof(Scope));
  scope->variables.clear();
}

Interpreter::Level::Level(Interpreter* interpreter) : interpreter_(interpreter) {
  ChargeSteps(1);
  if (interpreter->depth_ >= interpreter->options_.limits.depth) {
    FailLimit("RecursionError: macros or expressions are nested too deeply");
  }
  ++interpreter->depth_;
}

Interpreter::Interpreter(const Ast& ast, const RenderOptions& options, std::timespec now)
    : Runtime(now), ast_(ast), options_(options), globals_(ast.names.size()) {
  const auto set = [&](const auto& variables) {
    std::unordered_map<std::string_view, const Value*> by_name;
    for (const auto& [name, value] : variables) by_name[name] = &value;
    for (size_t slot = 0; slot < ast.names.size(); ++slot) {
      if (const auto it = by_name.find(ast.names[slot]); it != by_name.end()) globals_[slot] = *it->second;
    }
  };
  set(Globals());
  set(options.variables);
  tracked_.reserve(options.tracked.size());
  size_t texts = 0;  // bytes in the tracked dicts' strings, about the size of the rendering
  for (size_t i = 0; i < options.tracked.size(); ++i) {
    const Value& item = options.tracked[i];
    if (!item.is_dict()) continue;
    tracked_.emplace(item.dict().get(), i);
    for (const auto& [key, value] : item.dict()->items) texts += value.is_str() ? value.str()->bytes.size() + 64 : 64;
  }
  root_out_.Reserve(texts + texts / 8);
}

Interpreter::~Interpreter() {
  for (const ScopePtr& scope : captured_) scope->variables.clear();
}

RenderedText Interpreter::Run() {
  const ScopePtr root = std::make_shared<Scope>();
  Execute(ast_.body, root);
  Str text = root_out_.Build();
  return {std::move(text.bytes), std::move(text.marks), std::move(passes_), std::move(generations_)};
}

PromptRendering Interpreter::RunToPrompt(int flag, size_t common, bool prompted,
                                         std::optional<TemplateError>& rejected) {
  const ScopePtr root = std::make_shared<Scope>();
  const auto run = [&](size_t first, size_t last) {
    for (size_t i = first; i < last; ++i) {
      try {
        Execute(*ast_.body[i], root);
      } catch (TemplateError& thrown) {
        if (thrown.line == 0) thrown.line = ast_.body[i]->line;
        throw;
      }
    }
  };
  run(0, common);
  const std::vector<std::pair<int, Value>> variables = root->variables;
  const StrBuilder::Place parting = root_out_.Here();
  const auto finish = [&](bool value) {
    root->variables = variables;
    root_out_.CutTo(parting);
    globals_[flag] = Value(value);
    try {
      run(common, ast_.body.size());
    } catch (const TemplateError& thrown) {
      if (!value) throw;
      rejected = thrown;
    }
  };
  finish(false);
  const std::string other(root_out_.Since(parting));
  std::optional<StrBuilder> without;
  if (!prompted) without = root_out_;
  finish(true);
  PromptRendering out;
  if (!rejected.has_value()) {
    const std::string_view with = root_out_.Since(parting);
    const auto same =
        static_cast<size_t>(std::mismatch(with.begin(), with.end(), other.begin(), other.end()).first - with.begin());
    out.prompt_begin = parting.bytes + same;
    out.prompt = with.substr(same);
  }
  Str text = (prompted ? root_out_ : *without).Build();
  out.rendered = {std::move(text.bytes), std::move(text.marks), std::move(passes_), std::move(generations_)};
  return out;
}

Interpreter::Flow Interpreter::Execute(const Block& block, const ScopePtr& scope) {
  for (const auto& statement : block) {
    Flow flow = Flow::kNormal;
    try {
      flow = Execute(*statement, scope);
    } catch (TemplateError& error) {
      if (error.line == 0) error.line = statement->line;
      throw;
    }
    if (flow != Flow::kNormal) return flow;
  }
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::Execute(const Stmt& statement, const ScopePtr& scope) {
  const Level level(this);
  switch (statement.kind) {
    case Stmt::Kind::kOutput:
      for (const ExprPtr& expr : statement.exprs) Print(*expr, scope);
      if (WritesToRoot() && root_out_.size() > options_.limits.output_bytes) {
        FailLimit("the rendered text exceeds the size limit");
      }
      break;
    case Stmt::Kind::kSet:
      Assign(*statement.target, Evaluate(*statement.exprs[0], scope), scope);
      break;
    case Stmt::Kind::kSetBlock:
      ExecuteSetBlock(statement, scope);
      break;
    case Stmt::Kind::kIf:
      for (const auto& [test, body] : statement.branches) {
        if (IsTrue(*test, scope)) return Execute(body, scope);
      }
      return Execute(statement.else_body, scope);
    case Stmt::Kind::kFor:
      return ExecuteFor(statement, scope);
    case Stmt::Kind::kMacro:
      scope->Set(statement.slot, MakeMacro(statement, scope, statement.text));
      break;
    case Stmt::Kind::kCallBlock:
      ExecuteCallBlock(statement, scope);
      break;
    case Stmt::Kind::kFilterBlock: {
      const StrPtr text = Captured(statement.body, Inner(scope));
      PrintTo(ApplyFilter(*statement.exprs[0], scope, text), *out_);
      break;
    }
    case Stmt::Kind::kWith: {
      const ScopePtr inner = Inner(scope);
      for (size_t i = 0; i < statement.targets.size(); ++i) {
        Assign(*statement.targets[i], Evaluate(*statement.exprs[i], scope), inner);
      }
      return Execute(statement.body, inner);
    }
    case Stmt::Kind::kGeneration: {
      const size_t begin = out_->size();
      Execute(statement.body, Inner(scope));
      if (WritesToRoot()) generations_.emplace_back(begin, out_->size());
      break;
    }
    case Stmt::Kind::kBreak:
      return Flow::kBreak;
    case Stmt::Kind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNormal;
}

// Writes `{{ a + b + c }}`. Appends a sum of strings, the common case, part by part.
void Interpreter::Print(const Expr& expr, const ScopePtr& scope) {
  const auto is_sum = [](const Expr& e) { return e.kind == Expr::Kind::kBinary && e.op == '+'; };
  if (!is_sum(expr)) {
    Value room;
    return PrintTo(Refer(expr, scope, room), *out_);
  }
  std::vector<const Expr*> terms;
  for (const Expr* at = &expr; at != nullptr; at = is_sum(*at) ? at->items[0].get() : nullptr) {
    terms.push_back(is_sum(*at) ? at->items[1].get() : at);
  }
  std::reverse(terms.begin(), terms.end());
  std::vector<Value> values;
  for (const Expr* term : terms) values.push_back(Evaluate(*term, scope));
  const bool texts =
      std::all_of(values.begin(), values.end(), [](const Value& v) { return v.is_str() && !v.str()->markup; });
  if (texts) {
    for (const Value& value : values) out_->Append(*value.str());
    return;
  }
  Value sum = values[0];
  try {
    for (size_t i = 1; i < values.size(); ++i) sum = Arithmetic(*this, '+', sum, values[i]);
  } catch (TemplateError& error) {
    if (error.line == 0) error.line = expr.line;
    throw;
  }
  PrintTo(sum, *out_);
}

StrPtr Interpreter::Captured(const Block& block, const ScopePtr& scope) {
  StrBuilder text;
  StrBuilder* const outer = std::exchange(out_, &text);
  try {
    Execute(block, scope);
  } catch (...) {
    out_ = outer;
    throw;
  }
  out_ = outer;
  return text.Release();
}

void Interpreter::ExecuteSetBlock(const Stmt& statement, const ScopePtr& scope) {
  const StrPtr text = Captured(statement.body, Inner(scope));
  Value value(text);
  if (!statement.exprs.empty()) value = ApplyFilter(*statement.exprs[0], scope, text);
  Assign(*statement.target, std::move(value), scope);
}

Value Interpreter::MakeMacro(const Stmt& statement, const ScopePtr& scope, const std::string& name) {
  ChargeBytes(sizeof(MacroObject));
  captured_.push_back(scope);
  return Value(Value::ObjectPtr(std::make_shared<MacroObject>(this, statement, scope, name)));
}

void Interpreter::ExecuteCallBlock(const Stmt& statement, const ScopePtr& scope) {
  const Value caller = MakeMacro(statement, scope, "caller");
  PrintTo(CallExpr(*statement.exprs[0], scope, &caller), *out_);
}

void Interpreter::Assign(const Expr& target, Value value, const ScopePtr& scope) {
  if (target.kind == Expr::Kind::kName) {
    scope->Set(target.slot, std::move(value));
  } else if (target.kind == Expr::Kind::kAttribute) {
    const Value& named = Lookup(target.slot, scope);
    auto* const space = named.is_object() ? dynamic_cast<Namespace*>(named.object().get()) : nullptr;
    if (space == nullptr) Fail("TemplateRuntimeError: cannot assign attribute on non-namespace object");
    space->Set(target.text, std::move(value));
  } else {
    const std::vector<Value> items = Items(value);
    if (items.size() != target.items.size()) {
      Fail(absl::StrCat("ValueError: ", items.size() < target.items.size() ? "not enough" : "too many",
                        " values to unpack (expected ", target.items.size(), ", got ", items.size(), ")"));
    }
    for (size_t i = 0; i < items.size(); ++i) Assign(*target.items[i], items[i], scope);
  }
}

Value Interpreter::CallBody(const Stmt& statement, const ScopePtr& closure, const Args& args, const std::string& name) {
  const Level level(this);
  const Signature& signature = statement.signature;
  const ScopePtr scope = Inner(closure);
  std::vector<std::pair<std::string, Value>> named = args.named;
  const auto take = [&](const std::string& key) -> std::optional<Value> {
    for (auto it = named.begin(); it != named.end(); ++it) {
      if (it->first != key) continue;
      Value value = std::move(it->second);
      named.erase(it);
      return value;
    }
    return std::nullopt;
  };
  const size_t count = signature.names.size();
  const size_t first_default = count - signature.defaults.size();
  bool explicit_caller = false;
  for (size_t i = 0; i < count; ++i) {
    const auto& [parameter, slot] = signature.names[i];
    explicit_caller = explicit_caller || parameter == "caller";
    std::optional<Value> value;
    if (i < args.positional.size()) {
      value = args.positional[i];
    } else {
      value = take(parameter);
    }
    if (!value && i >= first_default) value = Evaluate(*signature.defaults[i - first_default], scope);
    if (!value) value = Value::UndefinedWith(absl::StrCat("parameter '", parameter, "' was not provided"));
    scope->Set(slot, *std::move(value));
  }
  if (signature.uses_caller && !explicit_caller) {
    scope->Set(ast_.caller_slot, take("caller").value_or(Value::UndefinedWith("No caller defined")));
  }
  if (signature.uses_kwargs) {
    DictBuilder rest;
    for (auto& [key, value] : named) rest.Set(Value::Text(key), std::move(value));
    scope->Set(ast_.kwargs_slot, rest.Release());
  } else if (!named.empty()) {
    Fail(absl::StrCat("TypeError: macro '", name, "' takes no keyword argument '", named.front().first, "'"));
  }
  if (signature.uses_varargs) {
    const size_t from = std::min(count, args.positional.size());
    scope->Set(ast_.varargs_slot,
               MakeTuple({args.positional.begin() + static_cast<std::ptrdiff_t>(from), args.positional.end()}));
  } else if (args.positional.size() > count) {
    Fail(absl::StrCat("TypeError: macro '", name, "' takes not more than ", count, " argument(s)"));
  }
  return Value(Captured(statement.body, scope));
}

}  // namespace ingot::text::jinja
