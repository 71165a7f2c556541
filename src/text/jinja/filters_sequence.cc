// Implements filters on lists and dicts.
#include <algorithm>
#include <array>
#include <unordered_set>

#include "text/jinja/budget.h"
#include "text/jinja/chars.h"
#include "text/jinja/params.h"
#include "text/jinja/runtime.h"

namespace ingot::text::jinja {
namespace {

// Looks up a path such as "a.b.0" in an item, like jinja's attribute arguments.
class AttributeGetter {
 public:
  AttributeGetter(const Value& path, std::optional<Value> missing) : missing_(std::move(missing)) {
    if (path.is_none()) return;
    if (!path.is_str()) {
      parts_.push_back(path);
      return;
    }
    const std::string& text = path.str()->bytes;
    for (size_t begin = 0; begin <= text.size();) {
      const size_t end = std::min(text.find('.', begin), text.size());
      const std::string part = text.substr(begin, end - begin);
      const bool digits = !part.empty() && part.size() < 10 && part.find_first_not_of("0123456789") == part.npos;
      parts_.push_back(digits ? Value(static_cast<int64_t>(std::stol(part))) : Value::Text(part));
      begin = end + 1;
    }
  }

  Value operator()(Value item) const {
    for (const Value& part : parts_) {
      item = GetItem(item, part);
      if (missing_ && item.is_undefined()) item = *missing_;
    }
    return item;
  }

 private:
  std::vector<Value> parts_;
  std::optional<Value> missing_;
};

Value IgnoreCase(Value value, bool case_sensitive) {
  if (case_sensitive || !value.is_str()) return value;
  ChargeScan(value.str()->bytes.size());
  return Value(Derived(Lower(value.str()->bytes), *value.str()));
}

// Sorts items by their keys with `<`. The sort is stable.
std::vector<Value> SortedBy(const std::vector<Value>& items, const std::vector<Value>& keys, bool reverse) {
  std::vector<size_t> order(items.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return reverse ? Compare(keys[b], keys[a], "<") == -1 : Compare(keys[a], keys[b], "<") == -1;
  });
  std::vector<Value> sorted;
  for (const size_t i : order) sorted.push_back(items[i]);
  return sorted;
}

Value LengthFilter(Runtime&, const Value& value, const Args& args) {
  const Params params("length", args, {});
  const auto length = Length(value);
  if (!length) Fail(absl::StrCat("TypeError: object of type '", TypeName(value), "' has no len()"));
  return Value(static_cast<int64_t>(*length));
}

Value ListFilter(Runtime&, const Value& value, const Args&) { return MakeList(Items(value)); }

Value Default(Runtime&, const Value& value, const Args& args) {
  const Params params("default", args, {"default_value", "boolean"});
  if (value.is_undefined() || (params.Flag(1, false) && !Truth(value))) return params.Or(0, Value::Text(""));
  return value;
}

Value Join(Runtime&, const Value& value, const Args& args) {
  const Params params("join", args, {"d", "attribute"});
  std::vector<StrPtr> parts;
  const AttributeGetter get(params.Or(1, Value()), std::nullopt);
  for (const Value& item : Items(value)) parts.push_back(ToStr(get(item)));
  return Value(JoinTexts(*params.Text(0, ""), parts, false));
}

Value First(Runtime&, const Value& value, const Args&) {
  if (value.is_seq() && !value.seq()->items.empty() && !value.seq()->consumed) return value.seq()->items.front();
  const std::vector<Value> items = Items(value);
  return items.empty() ? Value::UndefinedWith("No first item, sequence was empty.") : items.front();
}

Value Last(Runtime&, const Value& value, const Args&) {
  if (value.is_seq() && value.seq()->is_generator()) Fail("TypeError: 'generator' object is not reversible");
  if (value.is_seq() && !value.seq()->items.empty()) return value.seq()->items.back();
  const std::vector<Value> items = Items(value);
  return items.empty() ? Value::UndefinedWith("No last item, sequence was empty.") : items.back();
}

Value Reverse(Runtime&, const Value& value, const Args&) {
  if (value.is_str()) return Slice(value, Value(), Value(), Value(int64_t{-1}));
  const bool generator = value.is_seq() && value.seq()->is_generator();
  if (!IsIterable(value)) Fail("FilterArgumentError: argument must be iterable");
  std::vector<Value> items = Items(value);
  std::reverse(items.begin(), items.end());
  return generator ? MakeList(std::move(items)) : MakeGenerator(std::move(items));
}

Value ItemsFilter(Runtime& runtime, const Value& value, const Args&) {
  if (value.is_undefined()) return MakeGenerator({});
  if (!value.is_dict()) Fail("TypeError: Can only get item pairs from a mapping.");
  const Value items = BoundMethod(value, "items")->object()->Call(runtime, {});
  return MakeGenerator(items.seq()->items);
}

Value DictSort(Runtime& runtime, const Value& value, const Args& args) {
  const Params params("dictsort", args, {"case_sensitive", "by", "reverse"});
  if (value.is_undefined()) FailUndefined(value);
  if (!value.is_dict()) Fail(absl::StrCat("AttributeError: '", TypeName(value), "' object has no attribute 'items'"));
  const std::string by = params.Text(1, "key")->bytes;
  if (by != "key" && by != "value") Fail("FilterArgumentError: You can only sort by either \"key\" or \"value\"");
  std::vector<Value> keys;
  const bool sensitive = params.Flag(0, false);
  for (const auto& [key, item] : value.dict()->items) keys.push_back(IgnoreCase(by == "key" ? key : item, sensitive));
  const Value items = BoundMethod(value, "items")->object()->Call(runtime, {});
  return MakeList(SortedBy(items.seq()->items, keys, params.Flag(2, false)));
}

Value Sort(Runtime&, const Value& value, const Args& args) {
  const Params params("sort", args, {"reverse", "case_sensitive", "attribute"});
  const bool sensitive = params.Flag(1, false);
  std::vector<AttributeGetter> getters;
  const Value attribute = params.Or(2, Value());
  if (attribute.is_str()) {
    const std::string& text = attribute.str()->bytes;
    for (size_t begin = 0; begin <= text.size();) {
      const size_t end = std::min(text.find(',', begin), text.size());
      getters.emplace_back(Value::Text(text.substr(begin, end - begin)), std::nullopt);
      begin = end + 1;
    }
  } else {
    getters.emplace_back(attribute, std::nullopt);
  }
  const std::vector<Value> items = Items(value);
  std::vector<Value> keys;
  for (const Value& item : items) {
    std::vector<Value> key;
    for (const AttributeGetter& get : getters) key.push_back(IgnoreCase(get(item), sensitive));
    keys.push_back(MakeList(std::move(key)));
  }
  return MakeList(SortedBy(items, keys, params.Flag(0, false)));
}

Value Unique(Runtime&, const Value& value, const Args& args) {
  const Params params("unique", args, {"case_sensitive", "attribute"});
  const AttributeGetter get(params.Or(1, Value()), std::nullopt);
  std::unordered_set<std::string> texts;
  DictBuilder others;
  size_t count = 0;
  std::vector<Value> unique;
  for (const Value& item : Items(value)) {
    const Value key = IgnoreCase(get(item), params.Flag(0, false));
    bool fresh;
    if (key.is_str()) {
      fresh = texts.insert(key.str()->bytes).second;
    } else {
      others.Set(key, Value());
      fresh = others.size() > std::exchange(count, others.size());
    }
    if (fresh) unique.push_back(item);
  }
  return MakeGenerator(std::move(unique));
}

template <int kWanted>
Value Extreme(Runtime&, const Value& value, const Args& args) {
  const Params params("min", args, {"case_sensitive", "attribute"});
  const AttributeGetter get(params.Or(1, Value()), std::nullopt);
  const std::vector<Value> items = Items(value);
  if (items.empty()) return Value::UndefinedWith("No aggregated item, sequence was empty.");
  const bool sensitive = params.Flag(0, false);
  size_t best = 0;
  Value best_key = IgnoreCase(get(items[0]), sensitive);
  for (size_t i = 1; i < items.size(); ++i) {
    Value key = IgnoreCase(get(items[i]), sensitive);
    if (Compare(key, best_key, kWanted < 0 ? "<" : ">") != kWanted) continue;
    best = i;
    best_key = std::move(key);
  }
  return items[best];
}

Value Sum(Runtime& runtime, const Value& value, const Args& args) {
  const Params params("sum", args, {"attribute", "start"});
  const AttributeGetter get(params.Or(0, Value()), std::nullopt);
  Value total = params.Or(1, Value(int64_t{0}));
  for (const Value& item : Items(value)) total = Arithmetic(runtime, '+', total, get(item));
  return total;
}

Value Batch(Runtime&, const Value& value, const Args& args) {
  const Params params("batch", args, {"linecount", "fill_with"}, 1);
  const int64_t size = params.Integer(0, 0);
  std::vector<Value> batches, batch;
  for (const Value& item : Items(value)) {
    if (static_cast<int64_t>(batch.size()) == size) batches.push_back(MakeList(std::exchange(batch, {})));
    batch.push_back(item);
  }
  if (!batch.empty()) {
    const bool fill = params.has(1) && !params[1].is_none();
    if (fill && size > static_cast<int64_t>(batch.size())) {
      ChargeBytes(static_cast<uint64_t>(size) * sizeof(Value));
      batch.resize(static_cast<size_t>(size), params[1]);
    }
    batches.push_back(MakeList(std::move(batch)));
  }
  return MakeGenerator(std::move(batches));
}

Value SliceFilter(Runtime&, const Value& value, const Args& args) {
  const Params params("slice", args, {"slices", "fill_with"}, 1);
  const std::vector<Value> items = Items(value);
  const int64_t slices = params.Integer(0, 0), length = static_cast<int64_t>(items.size());
  if (slices == 0) Fail("ZeroDivisionError: integer division or modulo by zero");
  ChargeSteps(static_cast<uint64_t>(std::max<int64_t>(slices, 0)));
  std::vector<Value> out;
  int64_t begin = 0;
  for (int64_t i = 0; i < slices; ++i) {
    const bool extra = i < length % slices;
    const int64_t end = begin + length / slices + (extra ? 1 : 0);
    std::vector<Value> slice(items.begin() + begin, items.begin() + end);
    if (params.has(1) && !params[1].is_none() && !extra) slice.push_back(params[1]);
    out.push_back(MakeList(std::move(slice)));
    begin = end;
  }
  return MakeGenerator(std::move(out));
}

Value GroupBy(Runtime&, const Value& value, const Args& args) {
  const Params params("groupby", args, {"attribute", "default", "case_sensitive"}, 1);
  const bool with_default = params.has(1) && !params[1].is_none();
  const AttributeGetter get(params[0], with_default ? std::optional<Value>(params[1]) : std::nullopt);
  const bool sensitive = params.Flag(2, false);
  const std::vector<Value> items = Items(value);
  std::vector<Value> keys;
  for (const Value& item : items) keys.push_back(IgnoreCase(get(item), sensitive));
  std::vector<Value> groups, group;
  Value group_key;
  const auto close = [&] {
    if (group.empty()) return;
    const Value name = get(group.front());
    groups.push_back(MakeSeq(Seq::Kind::kGroup, {name, MakeList(std::exchange(group, {}))}));
  };
  for (const Value& item : SortedBy(items, keys, false)) {
    Value key = IgnoreCase(get(item), sensitive);
    if (group.empty() || !Equal(key, group_key)) {
      close();
      group_key = std::move(key);
    }
    group.push_back(item);
  }
  close();
  return MakeList(std::move(groups));
}

// Returns the arguments that `map` and similar filters pass on.
Args Rest(const Args& args, size_t from) {
  Args rest;
  rest.positional.assign(args.positional.begin() + static_cast<std::ptrdiff_t>(from), args.positional.end());
  rest.named = args.named;
  return rest;
}

Value Map(Runtime& runtime, const Value& value, const Args& args) {
  std::vector<Value> out;
  if (!Truth(value)) return MakeGenerator({});
  const auto named = [&](const char* name) -> const Value* {
    for (const auto& [key, item] : args.named) {
      if (key == name) return &item;
    }
    return nullptr;
  };
  if (args.positional.empty() && named("attribute") != nullptr) {
    const Params params("map", args, {"attribute", "default"});
    const bool with_default = params.has(1) && !params[1].is_none();
    const AttributeGetter get(params[0], with_default ? std::optional<Value>(params[1]) : std::nullopt);
    for (const Value& item : Items(value)) out.push_back(get(item));
    return MakeGenerator(std::move(out));
  }
  if (args.positional.empty()) Fail("FilterArgumentError: map requires a filter argument");
  const std::string name = ToStr(args.positional[0])->bytes;
  const Args rest = Rest(args, 1);
  for (const Value& item : Items(value)) out.push_back(CallFilter(runtime, name, item, rest));
  return MakeGenerator(std::move(out));
}

template <bool kKeep, bool kAttribute>
Value Select(Runtime& runtime, const Value& value, const Args& args) {
  std::vector<Value> out;
  if (!Truth(value)) return MakeGenerator({});
  if (kAttribute && args.positional.empty()) {
    Fail("FilterArgumentError: Missing parameter for attribute name");
  }
  const AttributeGetter get(kAttribute ? args.positional[0] : Value(), std::nullopt);
  constexpr size_t kTest = kAttribute ? 1 : 0;
  const bool tested = args.positional.size() > kTest;
  const std::string name = tested ? ToStr(args.positional[kTest])->bytes : "";
  const Args rest = tested ? Rest(args, kTest + 1) : Args{};
  for (const Value& item : Items(value)) {
    const Value subject = get(item);
    if ((tested ? CallTest(runtime, name, subject, rest) : Truth(subject)) == kKeep) out.push_back(item);
  }
  return MakeGenerator(std::move(out));
}

Value Attr(Runtime&, const Value& value, const Args& args) {
  const Params params("attr", args, {"name"}, 1);
  const std::string& name = params.RequireText(0)->bytes;
  if (value.is_dict() && !BoundMethod(value, name)) {
    return Value::UndefinedWith(absl::StrCat("'dict object' has no attribute '", name, "'"));
  }
  return GetAttribute(value, name);
}

struct Entry {
  std::string_view name;
  Filter filter;
};
constexpr auto kFilters = std::to_array<Entry>({
    {"length", LengthFilter},
    {"count", LengthFilter},
    {"list", ListFilter},
    {"default", Default},
    {"d", Default},
    {"join", Join},
    {"first", First},
    {"last", Last},
    {"reverse", Reverse},
    {"items", ItemsFilter},
    {"dictsort", DictSort},
    {"sort", Sort},
    {"unique", Unique},
    {"min", Extreme<-1>},
    {"max", Extreme<1>},
    {"sum", Sum},
    {"batch", Batch},
    {"slice", SliceFilter},
    {"groupby", GroupBy},
    {"map", Map},
    {"select", Select<true, false>},
    {"reject", Select<false, false>},
    {"selectattr", Select<true, true>},
    {"rejectattr", Select<false, true>},
    {"attr", Attr},
});

}  // namespace

Filter FindSequenceFilter(std::string_view name) {
  for (const Entry& entry : kFilters) {
    if (entry.name == name) return entry.filter;
  }
  return nullptr;
}

Filter FindFilter(std::string_view name) {
  const Filter filter = FindTextFilter(name);
  return filter != nullptr ? filter : FindSequenceFilter(name);
}

Value CallFilter(Runtime& runtime, std::string_view name, const Value& value, const Args& args) {
  const Filter filter = FindFilter(name);
  if (filter == nullptr) Fail(absl::StrCat("TemplateRuntimeError: No filter named '", base::View(name), "'."));
  ChargeScan(value.is_str() ? value.str()->bytes.size() : 0);
  return filter(runtime, value, args);
}

}  // namespace ingot::text::jinja
