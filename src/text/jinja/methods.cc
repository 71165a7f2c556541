#include "text/jinja/methods.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "text/jinja/budget.h"
#include "text/jinja/params.h"

namespace ingot::text::jinja {
namespace {

using Method = Value (*)(Runtime& runtime, const Value& self, const Args& args);

class Bound final : public Object {
 public:
  Bound(std::string_view name, Value self, Method method) : name_(name), self_(std::move(self)), method_(method) {}
  const char* type_name() const override { return "builtin_function_or_method"; }
  std::string Repr() const override {
    return absl::StrCat("<built-in method ", base::View(name_), " of ", TypeName(self_), " object>");
  }
  bool callable() const override { return true; }
  int depth() const override { return Depth(self_) + 1; }
  Value Call(Runtime& runtime, const Args& args) override { return method_(runtime, self_, args); }

 private:
  const std::string_view name_;  // points into a static table
  const Value self_;
  const Method method_;
};

class BoundStr final : public Object {
 public:
  BoundStr(StrPtr self, StrMethod method) : self_(std::move(self)), method_(method) {}
  const char* type_name() const override { return "builtin_function_or_method"; }
  bool callable() const override { return true; }
  Value Call(Runtime&, const Args& args) override {
    ChargeScan(self_->bytes.size());
    return method_(self_, args);
  }

 private:
  const StrPtr self_;
  const StrMethod method_;
};

Value Format(Runtime& runtime, const Value& self, const Args& args) { return BraceFormat(runtime, self.str(), args); }

Value FormatMap(Runtime& runtime, const Value& self, const Args& args) {
  const Params params("format_map", args, {"mapping"}, 1);
  if (!params[0].is_dict()) Fail("TypeError: format_map() expects a dict");
  Args named;
  for (const auto& [key, value] : params[0].dict()->items) {
    if (key.is_str()) named.named.emplace_back(key.str()->bytes, value);
  }
  return BraceFormat(runtime, self.str(), named);
}

Value DictItems(Runtime&, const Value& self, const Args& args) {
  const Params params("items", args, {});
  std::vector<Value> items;
  for (const auto& [key, value] : self.dict()->items) items.push_back(MakeTuple({key, value}));
  return MakeSeq(Seq::Kind::kItems, std::move(items));
}

Value DictKeys(Runtime&, const Value& self, const Args& args) {
  const Params params("keys", args, {});
  return MakeSeq(Seq::Kind::kKeys, Items(self));
}

Value DictValues(Runtime&, const Value& self, const Args& args) {
  const Params params("values", args, {});
  std::vector<Value> items;
  for (const auto& [key, value] : self.dict()->items) items.push_back(value);
  return MakeSeq(Seq::Kind::kValues, std::move(items));
}

Value DictGet(Runtime&, const Value& self, const Args& args) {
  const Params params("get", args, {"key", "default"}, 1);
  const Value* found = self.dict()->Find(params[0]);
  return found != nullptr ? *found : params.Or(1, Value());
}

Value DictCopy(Runtime&, const Value& self, const Args&) { return self; }

Value SeqIndex(Runtime&, const Value& self, const Args& args) {
  const Params params("index", args, {"value", "start", "stop"}, 1);
  const std::vector<Value>& items = self.seq()->items;
  const auto size = static_cast<int64_t>(items.size());
  const auto clamp = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + size : at, 0, size); };
  for (int64_t i = clamp(params.Integer(1, 0)); i < clamp(params.Integer(2, size)); ++i) {
    if (Equal(items[i], params[0])) return Value(i);
  }
  Fail(absl::StrCat("ValueError: ", ReprText(params[0]), " is not in list"));
}

Value SeqCount(Runtime&, const Value& self, const Args& args) {
  const Params params("count", args, {"value"}, 1);
  const std::vector<Value>& items = self.seq()->items;
  return Value(static_cast<int64_t>(
      std::count_if(items.begin(), items.end(), [&](const Value& item) { return Equal(item, params[0]); })));
}

Value ListCopy(Runtime&, const Value& self, const Args&) { return self; }

Value FloatIsInteger(Runtime&, const Value& self, const Args&) {
  return Value(std::isfinite(self.number()) && self.number() == std::floor(self.number()));
}

struct Entry {
  std::string_view name;
  Method method;
};
constexpr auto kDict = std::to_array<Entry>(
    {{"items", DictItems}, {"keys", DictKeys}, {"values", DictValues}, {"get", DictGet}, {"copy", DictCopy}});
constexpr auto kList = std::to_array<Entry>({{"index", SeqIndex}, {"count", SeqCount}, {"copy", ListCopy}});
constexpr auto kTuple = std::to_array<Entry>({{"index", SeqIndex}, {"count", SeqCount}});
constexpr auto kFloat = std::to_array<Entry>({{"is_integer", FloatIsInteger}});
constexpr auto kText = std::to_array<Entry>({{"format", Format}, {"format_map", FormatMap}});

// Methods that change a value in place. As in jinja2's immutable sandbox, these return an undefined value whose error
// explains this.
constexpr auto kDictMutators = std::to_array<std::string_view>({"clear", "pop", "popitem", "setdefault", "update"});
constexpr auto kListMutators =
    std::to_array<std::string_view>({"append", "clear", "pop", "reverse", "insert", "sort", "extend", "remove"});

template <size_t kSize>
std::optional<Value> Bind(const std::array<Entry, kSize>& table, const Value& self, std::string_view name) {
  for (const Entry& entry : table) {
    if (entry.name == name) return Value(Value::ObjectPtr(std::make_shared<Bound>(entry.name, self, entry.method)));
  }
  return std::nullopt;
}

template <size_t kSize>
bool Has(const std::array<std::string_view, kSize>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

bool IsDictAttribute(std::string_view name) {
  return (name.starts_with("__") && name.ends_with("__")) || Has(kDictMutators, name) ||
         std::any_of(kDict.begin(), kDict.end(), [name](const Entry& entry) { return entry.name == name; });
}

std::optional<Value> BoundMethod(const Value& self, std::string_view name) {
  if (self.is_str()) {
    if (const StrMethod method = FindStrMethod(name)) {
      return Value(Value::ObjectPtr(std::make_shared<BoundStr>(self.str(), method)));
    }
    return Bind(kText, self, name);
  }
  if (self.is_dict()) return Has(kDictMutators, name) ? UnsafeAttribute(self, name) : Bind(kDict, self, name);
  if (self.is_float()) return Bind(kFloat, self, name);
  if (!self.is_seq()) return std::nullopt;
  const Seq& seq = *self.seq();
  if (seq.is_list()) return Has(kListMutators, name) ? UnsafeAttribute(self, name) : Bind(kList, self, name);
  if (seq.kind == Seq::Kind::kGroup) {
    if (name == "grouper") return seq.items[0];
    if (name == "list") return seq.items[1];
  }
  return seq.is_tuple() || seq.kind == Seq::Kind::kRange ? Bind(kTuple, self, name) : std::nullopt;
}

}  // namespace ingot::text::jinja
