// Implements tests: the names after `is`.
#include <algorithm>
#include <array>

#include "text/jinja/budget.h"
#include "text/jinja/methods.h"
#include "text/jinja/params.h"
#include "text/jinja/runtime.h"

namespace ingot::text::jinja {
namespace {

const Value& Argument(const Args& args, const char* test) {
  if (args.positional.size() + args.named.size() != 1) {
    Fail(absl::StrCat("TypeError: the test '", test, "' takes one argument"));
  }
  return args.positional.empty() ? args.named[0].second : args.positional[0];
}

bool Divides(Runtime& runtime, const Value& value, const Value& divisor, int64_t remainder) {
  return Equal(Arithmetic(runtime, '%', value, divisor), Value(remainder));
}

bool Odd(Runtime& runtime, const Value& v, const Args&) { return Divides(runtime, v, Value(int64_t{2}), 1); }
bool Even(Runtime& runtime, const Value& v, const Args&) { return Divides(runtime, v, Value(int64_t{2}), 0); }
bool DivisibleBy(Runtime& runtime, const Value& v, const Args& args) {
  return Divides(runtime, v, Argument(args, "divisibleby"), 0);
}
bool Defined(Runtime&, const Value& v, const Args&) { return !v.is_undefined(); }
bool IsUndefined(Runtime&, const Value& v, const Args&) { return v.is_undefined(); }
bool IsNone(Runtime&, const Value& v, const Args&) { return v.is_none(); }
bool Boolean(Runtime&, const Value& v, const Args&) { return v.is_bool(); }
bool False(Runtime&, const Value& v, const Args&) { return v.is_bool() && !v.boolean(); }
bool True(Runtime&, const Value& v, const Args&) { return v.is_bool() && v.boolean(); }
bool IsLargeInteger(const Value& v) { return v.is_object() && v.object()->Digits().has_value(); }
bool Integer(Runtime&, const Value& v, const Args&) { return v.is_int() || IsLargeInteger(v); }
bool Float(Runtime&, const Value& v, const Args&) { return v.is_float(); }
bool Number(Runtime&, const Value& v, const Args&) { return v.is_number() || IsLargeInteger(v); }
bool String(Runtime&, const Value& v, const Args&) { return v.is_str(); }
bool Mapping(Runtime&, const Value& v, const Args&) { return v.is_dict(); }
bool Iterable(Runtime&, const Value& v, const Args&) { return IsIterable(v); }
bool Sequence(Runtime&, const Value& v, const Args&) {
  if (v.is_seq()) return v.seq()->is_list() || v.seq()->is_tuple() || v.seq()->kind == Seq::Kind::kRange;
  return v.is_str() || v.is_dict() || v.is_undefined();
}
bool Callable(Runtime&, const Value& v, const Args&) {
  return v.is_undefined() || (v.is_object() && v.object()->callable());
}
bool EscapedTest(Runtime&, const Value& v, const Args&) { return v.is_str() && v.str()->markup; }
bool LowerTest(Runtime&, const Value& v, const Args&) { return HasCase(ToStr(v)->bytes, false); }
bool UpperTest(Runtime&, const Value& v, const Args&) { return HasCase(ToStr(v)->bytes, true); }
bool In(Runtime&, const Value& v, const Args& args) { return Contains(Argument(args, "in"), v); }
bool SameAs(Runtime&, const Value& v, const Args& args) {
  const Value& other = Argument(args, "sameas");
  if (v.is_seq() && other.is_seq()) return v.seq() == other.seq();
  if (v.is_dict() && other.is_dict()) return v.dict() == other.dict();
  return v.is_bool() == other.is_bool() && v.is_float() == other.is_float() && Equal(v, other);
}
bool FilterTest(Runtime&, const Value& v, const Args&) { return v.is_str() && FindFilter(v.str()->bytes) != nullptr; }
bool TestTest(Runtime&, const Value& v, const Args&) { return v.is_str() && FindTest(v.str()->bytes) != nullptr; }
bool Eq(Runtime&, const Value& v, const Args& args) { return Equal(v, Argument(args, "eq")); }
bool Ne(Runtime&, const Value& v, const Args& args) { return !Equal(v, Argument(args, "ne")); }
bool Gt(Runtime&, const Value& v, const Args& args) { return Compare(v, Argument(args, "gt"), ">") == 1; }
bool Lt(Runtime&, const Value& v, const Args& args) { return Compare(v, Argument(args, "lt"), "<") == -1; }
bool Ge(Runtime&, const Value& v, const Args& args) {
  const int order = Compare(v, Argument(args, "ge"), ">=");
  return order == 0 || order == 1;
}
bool Le(Runtime&, const Value& v, const Args& args) { return Compare(v, Argument(args, "le"), "<=") <= 0; }

// Tests with an argument. All others have none.
constexpr auto kWithArgument = std::to_array<Test>({DivisibleBy, SameAs, In, Eq, Ne, Gt, Lt, Ge, Le});

struct Entry {
  std::string_view name;
  Test test;
};
constexpr auto kTests = std::to_array<Entry>({
    {"defined", Defined},
    {"undefined", IsUndefined},
    {"none", IsNone},
    {"string", String},
    {"mapping", Mapping},
    {"iterable", Iterable},
    {"sequence", Sequence},
    {"boolean", Boolean},
    {"true", True},
    {"false", False},
    {"integer", Integer},
    {"float", Float},
    {"number", Number},
    {"odd", Odd},
    {"even", Even},
    {"divisibleby", DivisibleBy},
    {"lower", LowerTest},
    {"upper", UpperTest},
    {"callable", Callable},
    {"sameas", SameAs},
    {"escaped", EscapedTest},
    {"in", In},
    {"filter", FilterTest},
    {"test", TestTest},
    {"==", Eq},
    {"eq", Eq},
    {"equalto", Eq},
    {"!=", Ne},
    {"ne", Ne},
    {">", Gt},
    {"gt", Gt},
    {"greaterthan", Gt},
    {">=", Ge},
    {"ge", Ge},
    {"<", Lt},
    {"lt", Lt},
    {"lessthan", Lt},
    {"<=", Le},
    {"le", Le},
});

}  // namespace

Test FindTest(std::string_view name) {
  for (const Entry& entry : kTests) {
    if (entry.name == name) return entry.test;
  }
  return nullptr;
}

bool CallTest(Runtime& runtime, std::string_view name, const Value& value, const Args& args) {
  const Test test = FindTest(name);
  if (test == nullptr) Fail(absl::StrCat("TemplateRuntimeError: No test named '", base::View(name), "'."));
  return RunTest(runtime, test, value, args);
}

bool RunTest(Runtime& runtime, Test test, const Value& value, const Args& args) {
  ChargeSteps(1);
  const bool takes_none = std::find(kWithArgument.begin(), kWithArgument.end(), test) == kWithArgument.end();
  if (takes_none && args.positional.size() + args.named.size() > 0) {
    Fail("TypeError: the test takes 1 positional argument but 2 were given");
  }
  return test(runtime, value, args);
}

}  // namespace ingot::text::jinja
