#include "text/jinja/value.h"

#include <algorithm>

#include "base/big_integer.h"
#include "text/jinja/budget.h"

namespace ingot::text::jinja {
namespace {

constexpr size_t kIndexFrom = 16;  // a dict with fewer keys has no index

void RequireHashable(const Value& key) {
  ChargeSteps(1);
  if (key.is_dict()) Fail("TypeError: unhashable type: 'dict'");
  if (!key.is_seq()) return;
  const Seq::Kind kind = key.seq()->kind;
  if (kind == Seq::Kind::kList || kind == Seq::Kind::kKeys || kind == Seq::Kind::kItems) {
    Fail(absl::StrCat("TypeError: unhashable type: '", TypeName(key), "'"));
  }
  if (key.seq()->is_tuple()) {
    for (const Value& item : key.seq()->items) RequireHashable(item);
  }
}

void CheckDepth(int depth) {
  if (depth > kMaxDepth) FailLimit(absl::StrCat("a value is nested more than ", kMaxDepth, " deep"));
}

}  // namespace

int Depth(const Value& value) {
  if (value.is_seq()) return value.seq()->depth;
  if (value.is_dict()) return value.dict()->depth;
  if (value.is_object()) return value.object()->depth();
  return 0;
}

Value MakeSeq(Seq::Kind kind, std::vector<Value> items) {
  int depth = 0;
  for (const Value& item : items) depth = std::max(depth, Depth(item));
  return MakeSeq(kind, std::move(items), depth);
}

Value MakeSeq(Seq::Kind kind, std::vector<Value> items, int depth) {
  ChargeBytes(sizeof(Seq) + items.size() * sizeof(Value));
  CheckDepth(depth + 1);
  return Value(std::make_shared<const Seq>(Seq{kind, std::move(items), depth + 1}));
}

const Value* Dict::Find(std::string_view key) const {
  if (!by_text.empty()) {
    const auto it = by_text.find(key);
    return it == by_text.end() ? nullptr : &items[it->second].second;
  }
  for (const auto& [name, value] : items) {
    if (name.is_str() && name.str()->bytes == key) return &value;
  }
  return nullptr;
}

const Value* Dict::Find(const Value& key) const {
  if (key.is_str()) return Find(key.str()->view());
  RequireHashable(key);
  for (const auto& [name, value] : items) {
    if (!name.is_str() && Equal(name, key)) return &value;
  }
  return nullptr;
}

void DictBuilder::Set(const Value& key, Value value) {
  ChargeBytes(2 * sizeof(Value));
  Dict& dict = *dict_;
  dict.depth = std::max({dict.depth, Depth(value) + 1, Depth(key) + 1});
  CheckDepth(dict.depth);
  if (const Value* old = dict.Find(key)) {
    const_cast<Value&>(*old) = std::move(value);
    return;
  }
  dict.items.emplace_back(key, std::move(value));
  if (dict.items.size() == kIndexFrom) {
    for (size_t i = 0; i < dict.items.size(); ++i) {
      if (dict.items[i].first.is_str()) dict.by_text.emplace(dict.items[i].first.str()->view(), i);
    }
  } else if (dict.items.size() > kIndexFrom && key.is_str()) {
    dict.by_text.emplace(dict.items.back().first.str()->view(), dict.items.size() - 1);
  }
}

Value DictBuilder::Release() { return Value(Value::DictPtr(std::move(dict_))); }

std::string Object::Repr() const { return absl::StrCat("<", type_name(), ">"); }
std::optional<Value> Object::Attribute(std::string_view) const { return std::nullopt; }
Value Object::Call(Runtime&, const Args&) {
  Fail(absl::StrCat("TypeError: '", type_name(), "' object is not callable"));
}

namespace {

class LargeInteger final : public Object {
 public:
  explicit LargeInteger(std::string digits) : digits_(std::move(digits)) {}
  const char* type_name() const override { return "int"; }
  std::string Repr() const override { return digits_; }
  std::optional<std::string> Digits() const override { return Repr(); }

 private:
  const std::string digits_;
};

}  // namespace

Value FromJson(const base::json::value& json, int32_t source) {
  using base::json::kind;
  const auto text = [source](std::string_view bytes) {
    std::vector<Mark> marks;
    if (source >= 0 && !bytes.empty()) marks.push_back({0, bytes.size(), source});
    return Value(std::make_shared<const Str>(std::string(bytes), std::move(marks)));
  };
  switch (json.kind()) {
    case kind::null:
      return Value();
    case kind::bool_:
      return Value(json.get_bool());
    case kind::int64:
      return Value(json.get_int64());
    case kind::uint64:
      return Value(std::make_shared<LargeInteger>(absl::StrCat(json.get_uint64())));
    case kind::double_:
      return Value(json.get_double());
    case kind::string:
      return text(std::string_view(json.get_string().data(), json.get_string().size()));
    case kind::array: {
      std::vector<Value> items;
      items.reserve(json.get_array().size());
      for (const auto& item : json.get_array()) items.push_back(FromJson(item, source));
      return MakeList(std::move(items));
    }
    case kind::object: {
      if (const std::string_view digits = base::BigInteger(json); !digits.empty())
        return Value(std::make_shared<LargeInteger>(std::string(digits)));
      DictBuilder dict(json.get_object().size());
      for (const auto& field : json.get_object()) {
        dict.Set(text(std::string_view(field.key().data(), field.key().size())), FromJson(field.value(), source));
      }
      return dict.Release();
    }
  }
  return Value();
}

}  // namespace ingot::text::jinja
