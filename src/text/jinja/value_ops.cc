// Implements Python's data model: truth, equality, order, membership, and subscripts.
#include <algorithm>
#include <cmath>

#include "text/jinja/budget.h"
#include "text/jinja/chars.h"
#include "text/jinja/value.h"

namespace ingot::text::jinja {
namespace {

Value CharAt(const StrPtr& text, size_t index) {
  if (text->ascii()) return Value(Substring(text, index, index + 1));
  ChargeScan(text->bytes.size());
  const size_t begin = ByteOffset(text->bytes, index);
  size_t end = begin;
  NextCharacter(text->bytes, end);
  return Value(Substring(text, begin, end));
}

int CompareNumbers(const Value& a, const Value& b) {
  if (a.is_integral() && b.is_integral()) return a.integer() < b.integer() ? -1 : a.integer() > b.integer();
  // A long double holds every int64 and every double exactly.
  const auto wide = [](const Value& v) {
    return v.is_float() ? static_cast<long double>(v.number()) : static_cast<long double>(v.integer());
  };
  const long double x = wide(a), y = wide(b);
  if (std::isnan(x) || std::isnan(y)) return 2;
  return x < y ? -1 : x > y;
}

bool EqualItems(const std::vector<Value>& a, const std::vector<Value>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), Equal);
}

bool EqualDicts(const Dict& a, const Dict& b) {
  if (a.items.size() != b.items.size()) return false;
  for (const auto& [key, value] : a.items) {
    const Value* other = b.Find(key);
    if (other == nullptr || !Equal(value, *other)) return false;
  }
  return true;
}

std::string Described(const Value& object) {
  return object.is_none() ? "None" : absl::StrCat(TypeName(object), " object");
}

Value NoElement(const Value& object, const Value& key) {
  if (key.is_str()) {
    return Value::UndefinedWith(absl::StrCat("'", Described(object), "' has no attribute ", ReprText(key)));
  }
  return Value::UndefinedWith(absl::StrCat(Described(object), " has no element ", ReprText(key)));
}

// Returns the Python attribute `name` of `object`, or nullopt for an AttributeError.
std::optional<Value> PythonAttribute(const Value& object, std::string_view name) {
  if (object.is_undefined()) FailUndefined(object);
  if (object.is_object()) {
    if (name.starts_with("__")) return UnsafeAttribute(object, name);
    return object.object()->Attribute(name);
  }
  if (name.starts_with("__") && name.ends_with("__")) return UnsafeAttribute(object, name);
  return BoundMethod(object, name);
}

struct Bounds {
  int64_t first, last, stride;  // first, first + stride, ... up to but not including last
};

// Clamps slice bounds as Python does.
Bounds SliceBounds(size_t size, const Value& begin, const Value& end, const Value& step) {
  const auto index = [](const Value& value, int64_t missing) {
    if (value.is_none()) return missing;
    if (!value.is_integral()) {
      Fail("TypeError: slice indices must be integers or None or have an __index__ method");
    }
    return value.integer();
  };
  const int64_t stride = index(step, 1);
  const auto length = static_cast<int64_t>(size);
  if (stride == 0) Fail("ValueError: slice step cannot be zero");
  const int64_t low = stride < 0 ? -1 : 0, high = stride < 0 ? length - 1 : length;
  const auto clamp = [&](const Value& value, int64_t missing) {
    int64_t at = index(value, missing);
    if (value.is_none()) return missing;
    if (at < 0) at = at < -length ? low : at + length;
    return std::clamp(at, low, high);
  };
  return {clamp(begin, stride < 0 ? high : low), clamp(end, stride < 0 ? low : high), stride};
}

std::vector<size_t> SliceIndices(const Bounds& bounds) {
  std::vector<size_t> indices;
  const int64_t span = bounds.stride < 0 ? bounds.first - bounds.last : bounds.last - bounds.first;
  const uint64_t stride = bounds.stride < 0 ? -static_cast<uint64_t>(bounds.stride) : bounds.stride;
  if (span > 0) indices.reserve((static_cast<uint64_t>(span) - 1) / stride + 1);
  for (int64_t i = bounds.first; bounds.stride < 0 ? i > bounds.last : i < bounds.last;) {
    ChargeBytes(sizeof(size_t));
    indices.push_back(static_cast<size_t>(i));
    if (__builtin_add_overflow(i, bounds.stride, &i)) break;
  }
  return indices;
}

Value SliceText(const StrPtr& text, const Bounds& bounds) {
  ChargeScan(text->bytes.size());
  if (bounds.stride == 1) {
    const int64_t last = std::max(bounds.first, bounds.last);
    if (text->ascii()) return Value(Substring(text, bounds.first, last));
    const size_t from = ByteOffset(text->bytes, bounds.first);
    return Value(Substring(text, from, from + ByteOffset(text->view().substr(from), last - bounds.first)));
  }
  std::vector<size_t> offsets;
  for (size_t at = 0; at < text->bytes.size(); ++at) {
    if (!IsContinuation(text->bytes[at])) offsets.push_back(at);
  }
  ChargeBytes(offsets.size() * sizeof(size_t));
  offsets.push_back(text->bytes.size());
  StrBuilder out;
  for (const size_t i : SliceIndices(bounds)) out.Append(*text, offsets[i], offsets[i + 1]);
  return Value(out.Release(text->markup));
}

}  // namespace

const char* TypeName(const Value& value) {
  if (value.is_none()) return "NoneType";
  if (value.is_bool()) return "bool";
  if (value.is_int()) return "int";
  if (value.is_float()) return "float";
  if (value.is_str()) return value.str()->markup ? "Markup" : "str";
  if (value.is_dict()) return "dict";
  if (value.is_undefined()) return "Undefined";
  if (value.is_object()) return value.object()->type_name();
  switch (value.seq()->kind) {
    case Seq::Kind::kList:
      return "list";
    case Seq::Kind::kTuple:
      return "tuple";
    case Seq::Kind::kRange:
      return "range";
    case Seq::Kind::kGenerator:
      return "generator";
    case Seq::Kind::kKeys:
      return "dict_keys";
    case Seq::Kind::kValues:
      return "dict_values";
    case Seq::Kind::kItems:
      return "dict_items";
    case Seq::Kind::kGroup:
      return "_GroupTuple";
  }
  return "object";
}

void FailUndefined(const Value& value) { Fail(absl::StrCat("UndefinedError: ", value.undefined_message())); }

bool Truth(const Value& value) {
  if (value.is_bool()) return value.boolean();
  if (value.is_none() || value.is_undefined()) return false;
  if (value.is_int()) return value.integer() != 0;
  if (value.is_float()) return value.number() != 0;
  if (value.is_str()) return !value.str()->bytes.empty();
  if (value.is_dict()) return !value.dict()->items.empty();
  if (value.is_seq()) return value.seq()->is_generator() || !value.seq()->items.empty();
  return true;
}

bool Equal(const Value& a, const Value& b) {
  ChargeSteps(1);
  if (a.is_str() && b.is_str()) {
    ChargeScan(std::min(a.str()->bytes.size(), b.str()->bytes.size()));
    return a.str()->bytes == b.str()->bytes;
  }
  if (a.is_number() && b.is_number()) return CompareNumbers(a, b) == 0;
  if (a.is_none() || b.is_none()) return a.is_none() && b.is_none();
  if (a.is_undefined() || b.is_undefined()) return a.is_undefined() && b.is_undefined();
  if (a.is_dict() && b.is_dict()) return a.dict() == b.dict() || EqualDicts(*a.dict(), *b.dict());
  if (a.is_object() && b.is_object()) {
    const auto digits = a.object()->Digits();
    return a.object() == b.object() || (digits.has_value() && digits == b.object()->Digits());
  }
  if (!a.is_seq() || !b.is_seq()) return false;
  const Seq &x = *a.seq(), &y = *b.seq();
  if (&x == &y) return true;
  const bool comparable =
      (x.kind == y.kind && !x.is_generator() && x.kind != Seq::Kind::kValues) || (x.is_tuple() && y.is_tuple());
  return comparable && EqualItems(x.items, y.items);
}

int Compare(const Value& a, const Value& b, const char* op) {
  ChargeSteps(1);
  if (a.is_undefined()) FailUndefined(a);
  if (b.is_undefined()) FailUndefined(b);
  if (a.is_number() && b.is_number()) return CompareNumbers(a, b);
  if (a.is_str() && b.is_str()) {
    ChargeScan(std::min(a.str()->bytes.size(), b.str()->bytes.size()));
    const int order = a.str()->bytes.compare(b.str()->bytes);  // UTF-8 sorts like code points
    return order < 0 ? -1 : order > 0;
  }
  if (a.is_seq() && b.is_seq()) {
    const Seq &x = *a.seq(), &y = *b.seq();
    if ((x.is_list() && y.is_list()) || (x.is_tuple() && y.is_tuple())) {
      for (size_t i = 0; i < std::min(x.items.size(), y.items.size()); ++i) {
        if (!Equal(x.items[i], y.items[i])) return Compare(x.items[i], y.items[i], op);
      }
      return x.items.size() < y.items.size() ? -1 : x.items.size() > y.items.size();
    }
  }
  Fail(absl::StrCat("TypeError: '", op, "' not supported between instances of '", TypeName(a), "' and '", TypeName(b),
                    "'"));
}

bool Contains(const Value& container, const Value& item) {
  ChargeSteps(1);
  if (container.is_undefined()) return false;
  if (container.is_str()) {
    if (!item.is_str()) {
      Fail(absl::StrCat("TypeError: 'in <string>' requires string as left operand, not ", TypeName(item)));
    }
    const std::string &text = container.str()->bytes, &part = item.str()->bytes;
    ChargeScan(text.size());
    return part.empty() || memmem(text.data(), text.size(), part.data(), part.size()) != nullptr;
  }
  if (container.is_dict()) return container.dict()->Find(item) != nullptr;
  if (container.is_seq()) {
    const std::vector<Value> items = Items(container);
    return std::any_of(items.begin(), items.end(), [&](const Value& other) { return Equal(item, other); });
  }
  Fail(absl::StrCat("TypeError: argument of type '", TypeName(container), "' is not iterable"));
}

std::optional<size_t> Length(const Value& value) {
  if (value.is_str()) return value.str()->chars;
  if (value.is_dict()) return value.dict()->items.size();
  if (value.is_undefined()) return 0;
  if (value.is_seq() && !value.seq()->is_generator()) return value.seq()->items.size();
  return std::nullopt;
}

bool IsIterable(const Value& value) {
  return value.is_str() || value.is_dict() || value.is_undefined() || value.is_seq();
}

std::vector<Value> Items(const Value& value) {
  if (value.is_undefined()) return {};
  if (value.is_seq()) {
    const Seq& seq = *value.seq();
    if (seq.is_generator() && std::exchange(seq.consumed, true)) return {};
    ChargeBytes(seq.items.size() * sizeof(Value));
    return seq.items;
  }
  std::vector<Value> items;
  if (value.is_dict()) {
    for (const auto& [key, unused] : value.dict()->items) items.push_back(key);
  } else if (value.is_str()) {
    const StrPtr& text = value.str();
    for (size_t at = 0; at < text->bytes.size();) {
      const size_t begin = at;
      NextCharacter(text->bytes, at);
      StrBuilder one;  // plain text, even if from markup
      one.Append(*text, begin, at);
      items.push_back(Value(one.Release()));
    }
  } else {
    Fail(absl::StrCat("TypeError: '", TypeName(value), "' object is not iterable"));
  }
  ChargeBytes(items.size() * sizeof(Value));
  return items;
}

Value::SeqPtr SharedItems(const Value& value) {
  if (!value.is_seq() || value.seq()->is_generator()) return MakeList(Items(value)).seq();
  ChargeBytes(value.seq()->items.size() * sizeof(Value));
  return value.seq();
}

Value UnsafeAttribute(const Value& object, std::string_view name) {
  return Value::UndefinedWith(
      absl::StrCat("access to attribute '", base::View(name), "' of '", TypeName(object), "' object is unsafe."));
}

Value GetItem(const Value& object, const Value& key) {
  if (object.is_undefined()) FailUndefined(object);
  if (object.is_dict()) {
    const bool hashable = !key.is_dict() && !(key.is_seq() && !key.seq()->is_tuple());
    if (const Value* found = hashable ? object.dict()->Find(key) : nullptr) return *found;
  } else if (key.is_integral() && (object.is_str() || object.is_seq())) {
    const bool subscriptable = object.is_str() || object.seq()->is_list() || object.seq()->is_tuple() ||
                               object.seq()->kind == Seq::Kind::kRange;
    const auto size = static_cast<int64_t>(object.is_str() ? object.str()->chars : object.seq()->items.size());
    const int64_t at = key.integer() < 0 ? key.integer() + size : key.integer();
    if (subscriptable && at >= 0 && at < size) {
      return object.is_str() ? CharAt(object.str(), at) : object.seq()->items[at];
    }
  }
  if (key.is_str()) {
    if (auto attribute = PythonAttribute(object, key.str()->bytes)) return *std::move(attribute);
  }
  return NoElement(object, key);
}

Value GetAttribute(const Value& object, std::string_view name) {
  if (auto attribute = PythonAttribute(object, name)) return *std::move(attribute);
  if (object.is_dict()) {
    if (const Value* found = object.dict()->Find(name)) return *found;
  }
  return Value::UndefinedWith(absl::StrCat("'", Described(object), "' has no attribute '", base::View(name), "'"));
}

Value Slice(const Value& object, const Value& begin, const Value& end, const Value& step) {
  if (object.is_undefined()) FailUndefined(object);
  if (object.is_str()) return SliceText(object.str(), SliceBounds(object.str()->chars, begin, end, step));
  const bool sliceable = object.is_seq() && (object.seq()->is_list() || object.seq()->is_tuple() ||
                                             object.seq()->kind == Seq::Kind::kRange);
  if (!sliceable) Fail(absl::StrCat("TypeError: '", TypeName(object), "' object cannot be sliced"));
  const std::vector<Value>& all = object.seq()->items;
  const Bounds bounds = SliceBounds(all.size(), begin, end, step);
  const std::vector<size_t> indices = SliceIndices(bounds);
  std::vector<Value> items;
  items.reserve(indices.size());
  for (const size_t i : indices) items.push_back(all[i]);
  if (object.seq()->kind == Seq::Kind::kRange) {
    const auto [from, to, by] = object.seq()->range;
    return Value(
        std::make_shared<const Seq>(Seq{Seq::Kind::kRange,
                                        std::move(items),
                                        1,
                                        false,
                                        {from + bounds.first * by, from + bounds.last * by, by * bounds.stride}}));
  }
  const Seq::Kind kind = object.seq()->is_tuple() ? Seq::Kind::kTuple : object.seq()->kind;
  if (items.size() < all.size()) return MakeSeq(kind, std::move(items));
  return MakeSeq(kind, std::move(items), object.seq()->depth - 1);  // all items, so as deep as the whole
}

}  // namespace ingot::text::jinja
