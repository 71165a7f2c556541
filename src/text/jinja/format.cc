// Implements string formatting: "%s" % x and "{}".format(x).
#include <charconv>
#include <cmath>
#include <cstdio>

#include "text/jinja/budget.h"
#include "text/jinja/chars.h"
#include "text/jinja/value.h"

namespace ingot::text::jinja {
namespace {

constexpr int kMaxWidth = 1 << 20;

// [[fill]align][sign][#][0][width][,|_][.precision][type], or its counterpart for %.
struct Spec {
  std::string fill = " ";
  char align = 0;  // < > ^ =; 0 = depends on the type
  char sign = '-';
  bool alternate = false;
  char grouping = 0;
  int width = 0;
  int precision = -1;
  char type = 0;
};

[[noreturn]] void FailSpec(const std::string& what) { Fail(absl::StrCat("ValueError: ", what)); }

// Reads digits at `at`. Returns -1 if there are none.
int ReadNumber(std::string_view text, size_t& at) {
  if (at >= text.size() || text[at] < '0' || text[at] > '9') return -1;
  int number = 0;
  while (at < text.size() && text[at] >= '0' && text[at] <= '9') {
    number = number * 10 + (text[at++] - '0');
    if (number > kMaxWidth) FailLimit("the width in a format specifier is too large");
  }
  return number;
}

bool IsAlign(char c) { return c == '<' || c == '>' || c == '^' || c == '='; }

Spec ParseSpec(std::string_view text) {
  Spec spec;
  size_t at = 0;
  size_t next = 0;
  if (!text.empty()) NextCharacter(text, next);
  if (next < text.size() && next > 0 && IsAlign(text[next])) {
    spec.fill = std::string(text.substr(0, next));
    spec.align = text[next];
    at = next + 1;
  } else if (!text.empty() && IsAlign(text[0])) {
    spec.align = text[at++];
  }
  if (at < text.size() && (text[at] == '+' || text[at] == '-' || text[at] == ' ')) spec.sign = text[at++];
  if (at < text.size() && text[at] == '#') spec.alternate = text[at++] == '#';
  if (at < text.size() && text[at] == '0') {
    if (spec.align == 0) {
      spec.fill = "0";
      spec.align = '=';
    }
    ++at;
  }
  spec.width = std::max(0, ReadNumber(text, at));
  if (at < text.size() && (text[at] == ',' || text[at] == '_')) spec.grouping = text[at++];
  if (at < text.size() && text[at] == '.') {
    spec.precision = ReadNumber(text, ++at);
    if (spec.precision < 0) FailSpec("Format specifier missing precision");
  }
  if (at < text.size()) spec.type = text[at++];
  if (at < text.size()) FailSpec(absl::StrCat("Invalid format specifier '", base::View(text), "'"));
  return spec;
}

std::string Digits(uint64_t number, int base, bool upper) {
  char buffer[66];
  const auto end = std::to_chars(buffer, buffer + sizeof(buffer), number, base).ptr;
  std::string text(buffer, end);
  return upper ? Upper(text) : text;
}

std::string Grouped(const std::string& number, char separator) {
  const size_t whole = std::min(number.find_first_not_of("0123456789"), number.size());
  std::string out;
  for (size_t i = 0; i < whole; ++i) {
    if (i > 0 && (whole - i) % 3 == 0) out += separator;
    out += number[i];
  }
  return out + number.substr(whole);
}

// Returns a number's magnitude in its type's notation, without sign.
std::string Magnitude(const Value& value, const Spec& spec) {
  const char type = spec.type;
  if (value.is_integral() && (type == 0 || std::string_view("dnboxX").find(type) != std::string_view::npos)) {
    const int64_t number = value.integer();
    const uint64_t magnitude = number < 0 ? 0 - static_cast<uint64_t>(number) : static_cast<uint64_t>(number);
    const int base = type == 'b' ? 2 : type == 'o' ? 8 : type == 'x' || type == 'X' ? 16 : 10;
    std::string prefix;
    if (spec.alternate && base != 10) prefix = absl::StrCat("0", std::string(1, type));
    return prefix + Digits(magnitude, base, type == 'X');
  }
  double number = std::fabs(value.number());
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return "inf";
  if (type == 0 && spec.precision < 0) return FloatRepr(number);
  if (type == '%') number *= 100;
  const char c = type == 0 ? 'g' : type == '%' ? 'f' : type == 'n' ? 'g' : type;
  if (std::string_view("eEfFgG").find(c) == std::string_view::npos) {
    FailSpec(absl::StrCat("Unknown format code '", std::string(1, type), "' for object of type 'float'"));
  }
  const std::string format = absl::StrCat("%", spec.alternate ? "#" : "", ".*", std::string(1, c));
  const int precision = spec.precision < 0 ? 6 : std::min(spec.precision, 1000);
  std::string text(static_cast<size_t>(precision) + 400, '\0');
  text.resize(std::snprintf(text.data(), text.size(), format.c_str(), precision, number));
  return type == '%' ? text + "%" : text;
}

void Pad(const Str& text, std::string_view sign, const Spec& spec, char default_align, StrBuilder& out) {
  const size_t used = text.chars + sign.size();
  const size_t missing = static_cast<size_t>(spec.width) > used ? spec.width - used : 0;
  const char align = spec.align != 0 ? spec.align : default_align;
  const size_t left = align == '>' ? missing : align == '^' ? missing / 2 : 0;
  for (size_t i = 0; i < left; ++i) out.Append(spec.fill);
  out.Append(sign);
  if (align == '=') {
    for (size_t i = 0; i < missing; ++i) out.Append(spec.fill);
  }
  out.Append(text);
  if (align != '=') {
    for (size_t i = left; i < missing; ++i) out.Append(spec.fill);
  }
}

void FormatNumber(const Value& value, const Spec& spec, StrBuilder& out) {
  const bool negative = value.is_float() ? std::signbit(value.number()) : value.integer() < 0;
  std::string magnitude = Magnitude(value, spec);
  if (spec.grouping != 0) magnitude = Grouped(magnitude, spec.grouping);
  const std::string sign = negative ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
  Pad(Str(std::move(magnitude)), sign, spec, '>', out);
}

void FormatText(const StrPtr& text, const Spec& spec, StrBuilder& out) {
  if (spec.align == '=') FailSpec("'=' alignment not allowed in string format specifier");
  StrPtr cut = text;
  if (spec.precision >= 0 && static_cast<size_t>(spec.precision) < text->chars) {
    cut = Substring(text, 0, ByteOffset(text->bytes, spec.precision));
  }
  Pad(*cut, "", spec, '<', out);
}

// Appends Python's format(value, spec).
void FormatValue(const Value& value, std::string_view spec_text, StrBuilder& out) {
  if (spec_text.empty()) return PrintTo(value, out);
  const Spec spec = ParseSpec(spec_text);
  if (value.is_str() && (spec.type == 0 || spec.type == 's')) return FormatText(value.str(), spec, out);
  if (value.is_number() && spec.type != 's' && spec.type != 'c') return FormatNumber(value, spec, out);
  if (value.is_str() || value.is_number()) {
    FailSpec(absl::StrCat("Unknown format code '", std::string(1, spec.type), "' for object of type '", TypeName(value),
                          "'"));
  }
  Fail(absl::StrCat("TypeError: unsupported format string passed to ", TypeName(value), ".__format__"));
}

// The right operand of one % expression.
class PercentArguments {
 public:
  explicit PercentArguments(const Value& args) : args_(args) {
    if (args.is_seq() && args.seq()->is_tuple()) {
      list_ = args.seq()->items;
    } else {
      list_ = {args};
    }
  }
  Value Named(std::string_view key) const {
    if (!args_.is_dict()) Fail("TypeError: format requires a mapping");
    const Value* found = args_.dict()->Find(key);
    if (found == nullptr) Fail(absl::StrCat("KeyError: '", base::View(key), "'"));
    return *found;
  }
  Value Next() {
    if (next_ >= list_.size()) Fail("TypeError: not enough arguments for format string");
    return list_[next_++];
  }
  int NextInteger() {
    const Value value = Next();
    if (!value.is_integral()) Fail("TypeError: * wants int");
    if (std::abs(value.integer()) > kMaxWidth) FailLimit("the width in a format specifier is too large");
    return static_cast<int>(value.integer());
  }
  void Finish() const {
    // Leftover arguments are allowed if they form a mapping: any value that a key can subscript.
    const bool mapping = args_.is_dict() || args_.is_undefined() ||
                         (args_.is_seq() && (args_.seq()->is_list() || args_.seq()->kind == Seq::Kind::kRange));
    if (next_ < list_.size() && !mapping) {
      Fail("TypeError: not all arguments converted during string formatting");
    }
  }

 private:
  const Value args_;
  std::vector<Value> list_;
  size_t next_ = 0;
};

void PercentItem(const Value& value, Spec spec, char type, StrBuilder& out) {
  if (type == 's' || type == 'r' || type == 'a') {
    StrBuilder text;
    if (type == 's') {
      PrintTo(value, text);
    } else {
      ReprTo(value, text);
    }
    if (spec.align == 0 || spec.align == '=') spec.align = '>';
    spec.fill = " ";
    return FormatText(text.Release(), spec, out);
  }
  if (type == 'c' && value.is_str() && value.str()->chars == 1) return FormatText(value.str(), spec, out);
  if (value.is_undefined() || !value.is_number()) {
    Fail(absl::StrCat("TypeError: %", std::string(1, type), " format: a real number is required, not ",
                      TypeName(value)));
  }
  Value number = value;
  spec.type = type == 'i' || type == 'u' ? 'd' : type;
  if (spec.type == 'd' || type == 'x' || type == 'X' || type == 'o') {
    if (value.is_float() && !(std::fabs(value.number()) < 9e18)) Fail("OverflowError: cannot convert float to integer");
    number = Value(value.is_float() ? static_cast<int64_t>(value.number()) : value.integer());
    spec.precision = -1;
  } else {
    number = Value(value.number());
  }
  FormatNumber(number, spec, out);
}

struct BraceState {
  const Args& args;
  size_t next = 0;
  bool automatic = false, manual = false;
};

Value BraceField(std::string_view field, BraceState& state) {
  const size_t end = std::min(field.find_first_of(".["), field.size());
  const std::string_view first = field.substr(0, end);
  Value value;
  const bool numbered = !first.empty() && first.find_first_not_of("0123456789") == first.npos;
  if (first.empty() || numbered) {
    size_t index = state.next;
    size_t at = 0;
    if (first.empty()) {
      state.automatic = true;
      ++state.next;
    } else {
      state.manual = true;
      index = static_cast<size_t>(ReadNumber(first, at));
    }
    if (state.automatic && state.manual) {
      FailSpec("cannot switch between manual field specification and automatic field numbering");
    }
    if (index >= state.args.positional.size()) {
      Fail(absl::StrCat("IndexError: Replacement index ", index, " out of range for positional args tuple"));
    }
    value = state.args.positional[index];
  } else {
    const auto it = std::find_if(state.args.named.begin(), state.args.named.end(),
                                 [&](const auto& named) { return named.first == first; });
    if (it == state.args.named.end()) Fail(absl::StrCat("KeyError: '", base::View(first), "'"));
    value = it->second;
  }
  for (size_t at = end; at < field.size();) {
    if (field[at] == '.') {
      const size_t stop = std::min(field.find_first_of(".[", at + 1), field.size());
      value = GetAttribute(value, field.substr(at + 1, stop - at - 1));
      at = stop;
    } else {
      const size_t stop = field.find(']', at);
      if (stop == field.npos) FailSpec("Missing ']' in format string");
      const std::string_view key = field.substr(at + 1, stop - at - 1);
      size_t digits = 0;
      const int index = ReadNumber(key, digits);
      value = GetItem(value, index >= 0 && digits == key.size() ? Value(static_cast<int64_t>(index))
                                                                : Value::Text(std::string(key)));
      at = stop + 1;
    }
  }
  return value;
}

// Replaces a field in braces, name[!conversion][:spec]. The spec may contain fields.
void BraceReplacement(std::string_view field, BraceState& state, StrBuilder& out) {
  const size_t colon = std::min(field.find(':'), field.size());
  std::string_view name = field.substr(0, colon);
  char conversion = 0;
  if (const size_t bang = name.find('!'); bang != name.npos) {
    if (bang + 2 != name.size()) FailSpec("expected ':' after conversion specifier");
    conversion = name[bang + 1];
    name = name.substr(0, bang);
  }
  Value value = BraceField(name, state);
  if (conversion == 'r' || conversion == 'a') {
    StrBuilder text;
    ReprTo(value, text);
    value = Value(text.Release());
  } else if (conversion == 's') {
    value = Value(ToStr(value));
  } else if (conversion != 0) {
    FailSpec(absl::StrCat("Unknown conversion specifier '", std::string(1, conversion), "'"));
  }
  std::string spec(colon < field.size() ? field.substr(colon + 1) : "");
  while (true) {
    const size_t open = spec.find('{');
    if (open == spec.npos) break;
    const size_t close = spec.find('}', open);
    if (close == spec.npos) FailSpec("expected '}' before end of string");
    const StrPtr inner = ToStr(BraceField(std::string_view(spec).substr(open + 1, close - open - 1), state));
    if (inner->bytes.find('{') != std::string::npos) FailSpec("Max string recursion exceeded");
    spec.replace(open, close - open + 1, inner->bytes);
  }
  FormatValue(value, spec, out);
}

}  // namespace

Value PercentFormat(Runtime&, const StrPtr& format, const Value& args) {
  PercentArguments arguments(args);
  const std::string_view text = format->bytes;
  StrBuilder out;
  size_t at = 0;
  while (at < text.size()) {
    const size_t percent = std::min(text.find('%', at), text.size());
    out.Append(*format, at, percent);
    at = percent + 1;
    if (percent == text.size()) break;
    ChargeSteps(1);
    std::optional<Value> named;
    if (at < text.size() && text[at] == '(') {
      const size_t close = text.find(')', at);
      if (close == text.npos) FailSpec("incomplete format key");
      named = arguments.Named(text.substr(at + 1, close - at - 1));
      at = close + 1;
    }
    Spec spec;
    for (; at < text.size() && std::string_view("#0- +").find(text[at]) != std::string_view::npos; ++at) {
      if (text[at] == '#') spec.alternate = true;
      if (text[at] == '-') spec.align = '<';
      if (text[at] == '+' || (text[at] == ' ' && spec.sign != '+')) spec.sign = text[at];
      if (text[at] == '0' && spec.align != '<') {
        spec.align = '=';
        spec.fill = "0";
      }
    }
    if (spec.align == '<') spec.fill = " ";
    const auto number = [&] {
      if (at < text.size() && text[at] == '*') return ++at, arguments.NextInteger();
      return ReadNumber(text, at);
    };
    spec.width = std::max(0, number());
    if (at < text.size() && text[at] == '.') {
      ++at;
      spec.precision = std::max(0, number());
    }
    while (at < text.size() && (text[at] == 'h' || text[at] == 'l' || text[at] == 'L')) ++at;
    if (at >= text.size()) FailSpec("incomplete format");
    const char type = text[at++];
    if (type == '%') {
      out.Append('%');
      continue;
    }
    if (std::string_view("sradiuxXoceEfFgG").find(type) == std::string_view::npos) {
      FailSpec(absl::StrCat("unsupported format character '", std::string(1, type), "'"));
    }
    PercentItem(named ? *named : arguments.Next(), spec, type, out);
  }
  arguments.Finish();
  return Value(out.Release(format->markup));
}

Value BraceFormat(Runtime&, const StrPtr& format, const Args& args) {
  BraceState state{args};
  const std::string_view text = format->bytes;
  StrBuilder out;
  size_t at = 0;
  while (at < text.size()) {
    const size_t brace = std::min(text.find_first_of("{}", at), text.size());
    out.Append(*format, at, brace);
    at = brace;
    if (at == text.size()) break;
    ChargeSteps(1);
    if (at + 1 < text.size() && text[at + 1] == text[at]) {
      out.Append(text[at]);
      at += 2;
      continue;
    }
    if (text[at] == '}') FailSpec("Single '}' encountered in format string");
    int level = 1;
    size_t end = at + 1;
    for (; end < text.size() && level > 0; ++end) level += text[end] == '{' ? 1 : text[end] == '}' ? -1 : 0;
    if (level > 0) FailSpec("expected '}' before end of string");
    BraceReplacement(text.substr(at + 1, end - at - 2), state, out);
    at = end;
  }
  return Value(out.Release(format->markup));
}

}  // namespace ingot::text::jinja
