// Implements the operators + - * / // % ** on numbers, strings, and lists, with Python's results. Integers have 64
// bits. Larger results are errors.
#include <cmath>

#include "text/jinja/budget.h"
#include "text/jinja/markup.h"
#include "text/jinja/value.h"

namespace ingot::text::jinja {
namespace {

const char* OperatorName(char op) {
  switch (op) {
    case 'f':
      return "//";
    case 'p':
      return "** or pow()";
    case '+':
      return "+";
    case '-':
      return "-";
    case '*':
      return "*";
    case '/':
      return "/";
    default:
      return "%";
  }
}

[[noreturn]] void FailOperands(char op, const Value& a, const Value& b) {
  if (op == '+' && a.is_str()) {
    Fail(absl::StrCat("TypeError: can only concatenate str (not \"", TypeName(b), "\") to str"));
  }
  Fail(absl::StrCat("TypeError: unsupported operand type(s) for ", OperatorName(op), ": '", TypeName(a), "' and '",
                    TypeName(b), "'"));
}

[[noreturn]] void FailWide() { Fail("OverflowError: the result does not fit in 64 bits, the limit for integers"); }

Value IntegerPower(int64_t base, int64_t exponent) {
  if (exponent < 0) {
    if (base == 0) Fail("ZeroDivisionError: 0.0 cannot be raised to a negative power");
    return Value(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  int64_t result = 1;
  while (exponent > 0) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) FailWide();
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) FailWide();
  }
  return Value(result);
}

Value Integers(char op, int64_t a, int64_t b) {
  int64_t result = 0;
  if ((op == '/' || op == 'f' || op == '%') && b == 0) {
    Fail(op == '/' ? "ZeroDivisionError: division by zero" : "ZeroDivisionError: integer division or modulo by zero");
  }
  switch (op) {
    case '+':
      if (__builtin_add_overflow(a, b, &result)) FailWide();
      return Value(result);
    case '-':
      if (__builtin_sub_overflow(a, b, &result)) FailWide();
      return Value(result);
    case '*':
      if (__builtin_mul_overflow(a, b, &result)) FailWide();
      return Value(result);
    case '/':
      return Value(static_cast<double>(a) / static_cast<double>(b));
    case 'p':
      return IntegerPower(a, b);
    default:
      break;
  }
  if (b == -1) {  // handles the overflowing quotient and its remainder, which would trap
    if (op == '%') return Value(int64_t{0});
    if (__builtin_sub_overflow(int64_t{0}, a, &result)) FailWide();
    return Value(result);
  }
  const int64_t remainder = a % b;
  const bool below = remainder != 0 && (remainder < 0) != (b < 0);
  return op == '%' ? Value(below ? remainder + b : remainder) : Value(a / b - (below ? 1 : 0));
}

Value Floats(char op, double a, double b) {
  if ((op == '/' || op == 'f' || op == '%') && b == 0) {
    Fail(op == '/' ? "ZeroDivisionError: float division by zero" : "ZeroDivisionError: float modulo");
  }
  double remainder = 0;
  switch (op) {
    case '+':
      return Value(a + b);
    case '-':
      return Value(a - b);
    case '*':
      return Value(a * b);
    case '/':
      return Value(a / b);
    case 'p':
      if (a == 0 && b < 0) Fail("ZeroDivisionError: 0.0 cannot be raised to a negative power");
      if (a < 0 && b != std::floor(b)) Fail("TypeError: a complex number is not supported");
      return Value(std::pow(a, b));
    default:
      remainder = std::fmod(a, b);
      if (remainder != 0 && (remainder < 0) != (b < 0)) remainder += b;
      if (op == '%') return Value(remainder == 0 ? std::copysign(0.0, b) : remainder);
      return Value(std::floor((a - remainder) / b + 0.5));
  }
}

Value Repeat(const Value& value, int64_t count) {
  const size_t unit = value.is_str() ? value.str()->bytes.size() : value.seq()->items.size() * sizeof(Value);
  if (count < 0 || unit == 0) count = 0;
  uint64_t bytes = 0;
  if (__builtin_mul_overflow(static_cast<uint64_t>(count), unit, &bytes)) bytes = UINT64_MAX;
  ChargeBytes(bytes);
  if (value.is_str()) {
    StrBuilder out;
    for (int64_t i = 0; i < count; ++i) out.Append(*value.str());
    return Value(out.Release(value.str()->markup));
  }
  const Seq& seq = *value.seq();
  std::vector<Value> items;
  for (int64_t i = 0; i < count; ++i) items.insert(items.end(), seq.items.begin(), seq.items.end());
  return MakeSeq(seq.is_tuple() ? Seq::Kind::kTuple : seq.kind, std::move(items));
}

bool IsRepeatable(const Value& value) {
  return value.is_str() || (value.is_seq() && (value.seq()->is_list() || value.seq()->is_tuple()));
}

Value Concatenate(const Value& a, const Value& b) {
  if (a.is_str() && b.is_str()) {
    const bool markup = a.str()->markup || b.str()->markup;
    StrBuilder out;
    out.Reserve(a.str()->bytes.size() + b.str()->bytes.size());
    out.Append(*(markup ? Escaped(a.str()) : a.str()));
    out.Append(*(markup ? Escaped(b.str()) : b.str()));
    return Value(out.Release(markup));
  }
  if (a.is_seq() && b.is_seq()) {
    const Seq &x = *a.seq(), &y = *b.seq();
    if ((x.is_list() && y.is_list()) || (x.is_tuple() && y.is_tuple())) {
      std::vector<Value> items = x.items;
      items.insert(items.end(), y.items.begin(), y.items.end());
      return MakeSeq(x.is_list() ? Seq::Kind::kList : Seq::Kind::kTuple, std::move(items));
    }
  }
  FailOperands('+', a, b);
}

}  // namespace

Value Arithmetic(Runtime& runtime, char op, const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) {
    if (a.is_integral() && b.is_integral()) return Integers(op, a.integer(), b.integer());
    return Floats(op, a.number(), b.number());
  }
  if (op == '%' && a.is_str()) return PercentFormat(runtime, a.str(), b);
  if (a.is_undefined()) FailUndefined(a);
  if (b.is_undefined()) FailUndefined(b);
  if (op == '+') return Concatenate(a, b);
  if (op == '*' && IsRepeatable(a) && b.is_integral()) return Repeat(a, b.integer());
  if (op == '*' && IsRepeatable(b) && a.is_integral()) return Repeat(b, a.integer());
  FailOperands(op, a, b);
}

Value Negate(const Value& value) {
  if (value.is_integral()) return Integers('-', 0, value.integer());
  if (value.is_float()) return Value(-value.number());
  if (value.is_undefined()) FailUndefined(value);
  Fail(absl::StrCat("TypeError: bad operand type for unary -: '", TypeName(value), "'"));
}

Value Plus(const Value& value) {
  if (value.is_integral()) return Value(value.integer());
  if (value.is_float()) return value;
  if (value.is_undefined()) FailUndefined(value);
  Fail(absl::StrCat("TypeError: bad operand type for unary +: '", TypeName(value), "'"));
}

}  // namespace ingot::text::jinja
