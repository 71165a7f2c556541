// Implements the globals in chat templates and the objects that they create.
#include <ctime>

#include "text/jinja/budget.h"
#include "text/jinja/chars.h"
#include "text/jinja/params.h"
#include "text/jinja/runtime.h"

namespace ingot::text::jinja {
namespace {

constexpr int64_t kMaxRange = 100000;  // the limit of jinja2's sandbox

class Builtin final : public Object {
 public:
  Builtin(const char* name, Function function) : name_(name), function_(function) {}
  const char* type_name() const override { return "function"; }
  std::string Repr() const override { return absl::StrCat("<function ", name_, ">"); }
  bool callable() const override { return true; }
  Value Call(Runtime& runtime, const Args& args) override { return function_(runtime, args); }

 private:
  const char* const name_;
  const Function function_;
};

class Joiner final : public Object {
 public:
  explicit Joiner(StrPtr separator) : separator_(std::move(separator)) {}
  const char* type_name() const override { return "Joiner"; }
  bool callable() const override { return true; }
  Value Call(Runtime&, const Args&) override {
    return std::exchange(used_, true) ? Value(separator_) : Value::Text("");
  }

 private:
  const StrPtr separator_;
  bool used_ = false;
};

struct CyclerState {
  std::vector<Value> items;
  size_t position = 0;
};

class CyclerMethod final : public Object {
 public:
  CyclerMethod(std::shared_ptr<CyclerState> state, bool reset) : state_(std::move(state)), reset_(reset) {}
  const char* type_name() const override { return "method"; }
  bool callable() const override { return true; }
  int depth() const override { return kMaxDepth; }  // no value needs to contain one
  Value Call(Runtime&, const Args&) override {
    if (reset_) {
      state_->position = 0;
      return Value();
    }
    const Value item = state_->items[state_->position];
    state_->position = (state_->position + 1) % state_->items.size();
    return item;
  }

 private:
  const std::shared_ptr<CyclerState> state_;
  const bool reset_;
};

class Cycler final : public Object {
 public:
  explicit Cycler(std::vector<Value> items) : state_(std::make_shared<CyclerState>()) {
    for (const Value& item : items) depth_ = std::max(depth_, Depth(item) + 1);
    if (depth_ >= kMaxDepth) FailLimit("a cycler is nested too deeply");
    state_->items = std::move(items);
  }
  const char* type_name() const override { return "Cycler"; }
  int depth() const override { return depth_; }
  std::optional<Value> Attribute(std::string_view name) const override {
    if (name == "current") return state_->items[state_->position];
    if (name != "next" && name != "reset") return std::nullopt;
    return Value(Value::ObjectPtr(std::make_shared<CyclerMethod>(state_, name == "reset")));
  }

 private:
  const std::shared_ptr<CyclerState> state_;
  int depth_ = 1;
};

Value RangeFunction(Runtime&, const Args& args) {
  int64_t bounds[3] = {0, 0, 1};
  if (args.positional.empty() || args.positional.size() > 3 || !args.named.empty()) {
    Fail("TypeError: range expects 1 to 3 arguments");
  }
  for (size_t i = 0; i < args.positional.size(); ++i) {
    const Value& value = args.positional[i];
    if (value.is_undefined()) FailUndefined(value);
    if (!value.is_integral()) {
      Fail(absl::StrCat("TypeError: '", TypeName(value), "' object cannot be interpreted as an integer"));
    }
    bounds[args.positional.size() == 1 ? 1 : i] = value.integer();
  }
  const auto [begin, end, step] = bounds;
  if (step == 0) Fail("ValueError: range() arg 3 must not be zero");
  std::vector<Value> items;
  for (int64_t i = begin; step < 0 ? i > end : i < end;) {
    if (static_cast<int64_t>(items.size()) == kMaxRange) {
      Fail("OverflowError: Range too big. The sandbox blocks ranges larger than MAX_RANGE (100000).");
    }
    items.push_back(Value(i));
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  ChargeBytes(items.size() * sizeof(Value));
  return Value(std::make_shared<const Seq>(Seq{Seq::Kind::kRange, std::move(items), 1, false, {begin, end, step}}));
}

// Calls `set` with each pair in dict(mapping or pairs, **named).
template <typename Set>
void EachPair(const Args& args, const char* function, const Set& set) {
  if (args.positional.size() > 1) Fail(absl::StrCat("TypeError: ", function, " expected at most 1 argument"));
  for (const Value& source : args.positional) {
    if (source.is_dict()) {
      for (const auto& [key, value] : source.dict()->items) set(key, value);
      continue;
    }
    for (const Value& pair : Items(source)) {
      const std::vector<Value> two = Items(pair);
      if (two.size() != 2) Fail("ValueError: dictionary update sequence element has not length 2");
      set(two[0], two[1]);
    }
  }
  for (const auto& [name, value] : args.named) set(Value::Text(name), value);
}

Value DictFunction(Runtime&, const Args& args) {
  DictBuilder dict;
  EachPair(args, "dict", [&](const Value& key, const Value& value) { dict.Set(key, value); });
  return dict.Release();
}

Value NamespaceFunction(Runtime& runtime, const Args& args) {
  const std::shared_ptr<Namespace> made = runtime.MakeNamespace();
  EachPair(args, "namespace", [&](const Value& key, const Value& value) { made->Set(ToStr(key)->bytes, value); });
  return Value(Value::ObjectPtr(made));
}

Value JoinerFunction(Runtime&, const Args& args) {
  const Params params("joiner", args, {"sep"});
  return Value(Value::ObjectPtr(std::make_shared<Joiner>(params.Text(0, ", "))));
}

Value CyclerFunction(Runtime&, const Args& args) {
  if (args.positional.empty()) Fail("RuntimeError: at least one item has to be provided");
  return Value(Value::ObjectPtr(std::make_shared<Cycler>(args.positional)));
}

Value RaiseException(Runtime&, const Args& args) {
  const Params params("raise_exception", args, {"message"}, 1);
  throw TemplateError{TemplateError::Kind::kRaised, ToStr(params[0])->bytes, 0};
}

Value StrftimeNow(Runtime& runtime, const Args& args) {
  const Params params("strftime_now", args, {"format"}, 1);
  std::string format = params.RequireText(0)->bytes;
  if (format.size() > 4096) FailLimit("strftime_now supports a format of at most 4096 bytes");
  std::tm local{};
  localtime_r(&runtime.now().tv_sec, &local);
  std::string micros = std::to_string(runtime.now().tv_nsec / 1000);
  micros.insert(0, 6 - micros.size(), '0');
  for (size_t at = 0; (at = format.find('%', at)) != std::string::npos && at + 1 < format.size();) {
    if (format[at + 1] == 'f') {
      format.replace(at, 2, micros);
    } else {
      at += 2;
    }
  }
  std::vector<char> buffer(format.size() * 64 + 64);
  return Value::Text(std::string(buffer.data(), std::strftime(buffer.data(), buffer.size(), format.c_str(), &local)));
}

}  // namespace

std::string Namespace::Repr() const {
  StrBuilder out;
  out.Append("<Namespace {");
  for (size_t i = 0; i < attributes_.size(); ++i) {
    if (i > 0) out.Append(", ");
    ReprTo(Value::Text(attributes_[i].first), out);
    out.Append(": ");
    // A namespace may contain itself, directly or in a list, so containers are not printed.
    const Value& value = attributes_[i].second;
    if (value.is_object() || value.is_seq() || value.is_dict()) {
      out.Append("...");
    } else {
      ReprTo(value, out);
    }
  }
  out.Append("}>");
  return out.Build().bytes;
}

std::optional<Value> Namespace::Attribute(std::string_view name) const {
  for (const auto& [known, value] : attributes_) {
    if (known == name) return value;
  }
  return std::nullopt;
}

void Namespace::Set(std::string_view name, Value value) {
  if (name.starts_with('_')) {
    Fail(absl::StrCat("SecurityError: chat templates cannot store underscore-prefixed attributes on a namespace: '",
                      base::View(name), "'"));
  }
  for (auto& [known, old] : attributes_) {
    if (known == name) {
      old = std::move(value);
      return;
    }
  }
  ChargeBytes(sizeof(Value));
  ChargeSteps(attributes_.size());
  attributes_.emplace_back(std::string(name), std::move(value));
}

Runtime::~Runtime() {
  for (const auto& made : namespaces_) made->Clear();
}

std::shared_ptr<Namespace> Runtime::MakeNamespace() {
  ChargeBytes(256);
  namespaces_.push_back(std::make_shared<Namespace>());
  return namespaces_.back();
}

const std::vector<std::pair<std::string, Value>>& Globals() {
  static const auto* const globals = [] {
    auto* all = new std::vector<std::pair<std::string, Value>>;
    const auto add = [all](const char* name, Function function) {
      all->emplace_back(name, Value(Value::ObjectPtr(std::make_shared<Builtin>(name, function))));
    };
    add("range", RangeFunction);
    add("dict", DictFunction);
    add("namespace", NamespaceFunction);
    add("joiner", JoinerFunction);
    add("cycler", CyclerFunction);
    add("raise_exception", RaiseException);
    add("strftime_now", StrftimeNow);
    return all;
  }();
  return *globals;
}

}  // namespace ingot::text::jinja
