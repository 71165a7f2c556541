// Defines the values in a running template: Python's None, bool, int, float, str, list, tuple, and dict, and Jinja's
// objects.
//
// Strings, lists, tuples, and dicts are immutable and shared, because the chat template sandbox forbids methods that
// change them. Only namespaces and loops can change. Nesting is limited to kMaxDepth, which also limits recursion over
// a value, including its destruction.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "base/json.h"
#include "text/jinja/error.h"
#include "text/jinja/str.h"

namespace ingot::text::jinja {

class Value;
class Runtime;
struct Seq;
struct Dict;
class Object;

struct None {};

// Like jinja2.Undefined: prints as nothing, is false and empty, and fails with `message` in any other use.
struct Undefined {
  std::shared_ptr<const std::string> message;
};

// Call arguments.
struct Args {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

class Value {
 public:
  using SeqPtr = std::shared_ptr<const Seq>;
  using DictPtr = std::shared_ptr<const Dict>;
  using ObjectPtr = std::shared_ptr<Object>;

  Value() : rep_(None{}) {}
  explicit Value(bool value) : rep_(value) {}
  explicit Value(int64_t value) : rep_(value) {}
  explicit Value(double value) : rep_(value) {}
  explicit Value(StrPtr text) : rep_(std::move(text)) {}
  explicit Value(SeqPtr seq) : rep_(std::move(seq)) {}
  explicit Value(DictPtr dict) : rep_(std::move(dict)) {}
  explicit Value(ObjectPtr object) : rep_(std::move(object)) {}
  explicit Value(Undefined undefined) : rep_(std::move(undefined)) {}
  static Value Text(std::string text) { return Value(std::make_shared<const Str>(std::move(text))); }
  static Value UndefinedWith(std::string message) {
    return Value(Undefined{std::make_shared<const std::string>(std::move(message))});
  }

  bool is_undefined() const { return std::holds_alternative<Undefined>(rep_); }
  bool is_none() const { return std::holds_alternative<None>(rep_); }
  bool is_bool() const { return std::holds_alternative<bool>(rep_); }
  bool is_int() const { return std::holds_alternative<int64_t>(rep_); }
  bool is_float() const { return std::holds_alternative<double>(rep_); }
  bool is_number() const { return is_bool() || is_int() || is_float(); }
  bool is_integral() const { return is_bool() || is_int(); }
  bool is_str() const { return std::holds_alternative<StrPtr>(rep_); }
  bool is_seq() const { return std::holds_alternative<SeqPtr>(rep_); }
  bool is_dict() const { return std::holds_alternative<DictPtr>(rep_); }
  bool is_object() const { return std::holds_alternative<ObjectPtr>(rep_); }

  // REQUIRES: the value has that type. integer() also accepts a bool, and number() accepts a bool, int, or float.
  bool boolean() const { return std::get<bool>(rep_); }
  int64_t integer() const { return is_bool() ? boolean() : std::get<int64_t>(rep_); }
  double number() const { return is_float() ? std::get<double>(rep_) : static_cast<double>(integer()); }
  const StrPtr& str() const { return std::get<StrPtr>(rep_); }
  const SeqPtr& seq() const { return std::get<SeqPtr>(rep_); }
  const DictPtr& dict() const { return std::get<DictPtr>(rep_); }
  const ObjectPtr& object() const { return std::get<ObjectPtr>(rep_); }
  const std::string& undefined_message() const { return *std::get<Undefined>(rep_).message; }

 private:
  std::variant<None, bool, int64_t, double, StrPtr, SeqPtr, DictPtr, ObjectPtr, Undefined> rep_;
};

// A list or similar sequence. A generator (the result of `map`, `select`, `items`, and so on) already contains its
// items, and the first iteration consumes it.
struct Seq {
  enum class Kind { kList, kTuple, kRange, kGenerator, kKeys, kValues, kItems, kGroup };
  Kind kind;
  std::vector<Value> items;
  int depth;                          // 1 + depth of the deepest item
  mutable bool consumed = false;      // only for generators, which are never shared between renderings
  std::array<int64_t, 3> range = {};  // ranges: begin, end, and step, for printing

  bool is_list() const { return kind == Kind::kList; }
  bool is_tuple() const { return kind == Kind::kTuple || kind == Kind::kGroup; }
  bool is_generator() const { return kind == Kind::kGenerator; }
};

// A dict with its keys in insertion order. Keys compare as in Python: 1, 1.0, and True are the same key.
struct Dict {
  std::vector<std::pair<Value, Value>> items;
  int depth = 1;
  std::unordered_map<std::string_view, size_t> by_text;  // string keys, only for large dicts; points into items

  const Value* Find(const Value& key) const;
  const Value* Find(std::string_view key) const;

  Dict() = default;
  Dict(const Dict&) = delete;  // because by_text points into items
  Dict& operator=(const Dict&) = delete;
};

// Builds a Dict. An existing key keeps its position and gets the new value. Fails for keys that Python cannot hash.
class DictBuilder {
 public:
  DictBuilder() = default;
  explicit DictBuilder(size_t expected_keys) { dict_->items.reserve(expected_keys); }

  void Set(const Value& key, Value value);
  size_t size() const { return dict_->items.size(); }
  Value Release();

 private:
  std::shared_ptr<Dict> dict_ = std::make_shared<Dict>();
};

// Any other value: a namespace, macro, loop, function, or bound method.
class Object {
 public:
  virtual ~Object() = default;
  virtual const char* type_name() const = 0;
  virtual std::string Repr() const;
  // Returns the digits of an integer outside the int64 range, or nullopt for any other object.
  virtual std::optional<std::string> Digits() const { return std::nullopt; }
  // Returns nullopt if there is no such attribute.
  virtual std::optional<Value> Attribute(std::string_view name) const;
  virtual bool callable() const { return false; }
  virtual Value Call(Runtime& runtime, const Args& args);
  virtual int depth() const { return 1; }
};

// Creates a sequence. Fails if the items are nested too deeply.
Value MakeSeq(Seq::Kind kind, std::vector<Value> items);
// Same as above, but takes the depth of the deepest item.
Value MakeSeq(Seq::Kind kind, std::vector<Value> items, int depth);
inline Value MakeList(std::vector<Value> items) { return MakeSeq(Seq::Kind::kList, std::move(items)); }
inline Value MakeTuple(std::vector<Value> items) { return MakeSeq(Seq::Kind::kTuple, std::move(items)); }
inline Value MakeGenerator(std::vector<Value> items) { return MakeSeq(Seq::Kind::kGenerator, std::move(items)); }
int Depth(const Value& value);
inline constexpr int kMaxDepth = 250;

// Converts a JSON value. Marks its strings, including keys, with `source` unless `source` is negative. An integer
// beyond int64 keeps its digits (base::ParseJsonExactly). It prints as in Python, both as text and as JSON, but does
// not support arithmetic.
Value FromJson(const base::json::value& json, int32_t source);

// --- Python's operations on values (value_ops.cc, printing.cc). They fail with Python's TypeError message. ---

const char* TypeName(const Value& value);
[[noreturn]] void FailUndefined(const Value& value);
bool Truth(const Value& value);
bool Equal(const Value& a, const Value& b);
// Three-way comparison for < and sorting. Error messages name `op`.
int Compare(const Value& a, const Value& b, const char* op);
bool Contains(const Value& container, const Value& item);
// Like Python's len(). Returns nullopt if that would raise a TypeError.
std::optional<size_t> Length(const Value& value);
// Returns the items of an iterable, such as a string's code points or a dict's keys. Consumes a generator. Fails if
// `value` is not iterable.
std::vector<Value> Items(const Value& value);
// Same as Items, but without a copy if the value is a sequence and not a generator.
Value::SeqPtr SharedItems(const Value& value);
bool IsIterable(const Value& value);
// Evaluate obj[key], obj.name, and obj[a:b:c] with the rules of the sandboxed environment. Return Undefined if missing.
Value GetItem(const Value& object, const Value& key);
Value GetAttribute(const Value& object, std::string_view name);
Value Slice(const Value& object, const Value& begin, const Value& end, const Value& step);
Value UnsafeAttribute(const Value& object, std::string_view name);

// Like str() and repr().
StrPtr ToStr(const Value& value);
void PrintTo(const Value& value, StrBuilder& out);
void ReprTo(const Value& value, StrBuilder& out);
std::string ReprText(const Value& value);
std::string FloatRepr(double number);

// Options for Python's json.dumps. `indent` is a string of spaces or other characters; nullopt = print on one line.
struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  std::optional<std::string> indent;
  StrPtr item_separator;  // null = use json.dumps's default
  StrPtr key_separator;
};
StrPtr ToJson(const Value& value, const JsonStyle& style);

// Arithmetic operators: '+', '-', '*', '/', 'f' (//), '%', 'p' (**).
Value Arithmetic(Runtime& runtime, char op, const Value& a, const Value& b);
Value Negate(const Value& value);
Value Plus(const Value& value);
// Like format % args.
Value PercentFormat(Runtime& runtime, const StrPtr& format, const Value& args);
// Like str.format.
Value BraceFormat(Runtime& runtime, const StrPtr& format, const Args& args);
// Returns a method of a str, list, tuple, dict, int, or float by name, or nullopt if the type has no such method.
std::optional<Value> BoundMethod(const Value& self, std::string_view name);

}  // namespace ingot::text::jinja
