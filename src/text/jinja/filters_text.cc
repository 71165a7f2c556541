// Implements filters that return strings or numbers.
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "text/jinja/budget.h"
#include "text/jinja/chars.h"
#include "text/jinja/markup.h"
#include "text/jinja/params.h"
#include "text/jinja/runtime.h"

namespace ingot::text::jinja {
namespace {

Value ToJsonFilter(Runtime&, const Value& value, const Args& args) {
  const Params params("tojson", args, {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ensure_ascii = params.Flag(0, false);
  style.sort_keys = params.Flag(3, false);
  if (params.has(1) && !params[1].is_none()) {
    if (params[1].is_str()) {
      style.indent = params[1].str()->bytes;
    } else {
      const int64_t spaces = params.Integer(1, 0);
      if (spaces > 1024) FailLimit("tojson supports an indent of at most 1024");
      style.indent = std::string(static_cast<size_t>(std::max<int64_t>(spaces, 0)), ' ');
    }
  }
  if (params.has(2) && !params[2].is_none()) {
    const std::vector<Value> separators = Items(params[2]);
    if (separators.size() != 2 || !separators[0].is_str() || !separators[1].is_str()) {
      Fail("ValueError: tojson's separators must be two strings");
    }
    style.item_separator = separators[0].str();
    style.key_separator = separators[1].str();
  }
  return Value(ToJson(value, style));
}

Value Trim(Runtime&, const Value& value, const Args& args) {
  const Params params("trim", args, {"chars"});
  const StrPtr text = ToStr(value);
  std::string_view chars;
  const bool given = params.has(0) && !params[0].is_none();
  if (given) {
    chars = params.RequireText(0)->view();
    if (chars.size() > 4096) FailLimit("trim supports at most 4096 bytes of characters");
    ChargeScan(text->bytes.size() * chars.size());
  }
  const Range range = StripRange(text->bytes, true, true, given ? &chars : nullptr);
  return Value(Substring(text, range.begin, range.end));
}

template <std::string (*kMap)(std::string_view)>
Value Mapped(Runtime&, const Value& value, const Args& args) {
  const Params params("a case filter", args, {});
  const StrPtr text = ToStr(value);
  return Value(Derived(kMap(text->bytes), *text));
}

// Applies jinja's title case: words begin after whitespace or one of -({[<.
std::string Title(std::string_view text) {
  const auto begins = [](char32_t c) { return IsSpace(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<'; };
  std::string out;
  size_t at = 0;
  while (at < text.size()) {
    size_t end = at;
    char32_t c = NextCharacter(text, end);
    if (begins(c)) {
      out += text.substr(at, end - at);
      at = end;
      continue;
    }
    out += Upper(text.substr(at, end - at));
    const size_t rest = end;
    for (size_t next = end; next < text.size(); end = next) {
      c = NextCharacter(text, next);
      if (begins(c)) break;
    }
    out += Lower(text.substr(rest, end - rest));
    at = end;
  }
  return out;
}

Value String(Runtime&, const Value& value, const Args& args) {
  const Params params("string", args, {});
  return Value(ToStr(value));
}

Value Safe(Runtime&, const Value& value, const Args&) { return Value(WithMarkup(ToStr(value), true)); }
Value Escape(Runtime&, const Value& value, const Args&) { return Value(Escaped(ToStr(value))); }
Value ForceEscape(Runtime&, const Value& value, const Args&) { return Value(Escaped(WithMarkup(ToStr(value), false))); }

Value Replace(Runtime&, const Value& value, const Args& args) {
  const Params params("replace", args, {"old", "new", "count"}, 2);
  const StrPtr text = WithMarkup(ToStr(value), false);
  return Value(ReplaceText(text, *ToStr(params[0]), *ToStr(params[1]), params.Integer(2, -1)));
}

Value Indent(Runtime&, const Value& value, const Args& args) {
  const Params params("indent", args, {"width", "first", "blank"});
  if (value.is_undefined()) FailUndefined(value);
  if (!value.is_str()) Fail(absl::StrCat("TypeError: indent expects a str, not ", TypeName(value)));
  StrPtr indent = std::make_shared<const Str>("    ");
  if (params.has(0) && params[0].is_str()) {
    indent = params[0].str();
  } else if (params.has(0)) {
    const int64_t width = params.Integer(0, 4);
    ChargeBytes(static_cast<uint64_t>(std::max<int64_t>(width, 0)));
    indent = std::make_shared<const Str>(std::string(static_cast<size_t>(std::max<int64_t>(width, 0)), ' '));
  }
  const bool first = params.Flag(1, false), blank = params.Flag(2, false);
  const StrPtr& text = value.str();
  std::vector<Range> lines = LineRanges(text->bytes, false);
  // Splits as if a line feed followed the text. A string that is empty or ends with a line break has an extra empty
  // line.
  bool open_end = text->bytes.empty();
  if (!open_end) {
    size_t at = text->bytes.size();
    open_end = IsLineBreak(PreviousCharacter(text->bytes, at));
  }
  if (open_end) lines.push_back({text->bytes.size(), text->bytes.size()});
  StrBuilder out;
  if (first) out.Append(*indent);
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) out.Append('\n');
    if (i > 0 && (blank || lines[i].begin < lines[i].end)) out.Append(*indent);
    out.Append(*text, lines[i].begin, lines[i].end);
  }
  return Value(out.Release(text->markup));
}

Value Truncate(Runtime&, const Value& value, const Args& args) {
  const Params params("truncate", args, {"length", "killwords", "end", "leeway"});
  const int64_t length = params.Integer(0, 255), leeway = params.Integer(3, 5);
  const StrPtr end = params.Text(2, "...");
  const auto end_chars = static_cast<int64_t>(end->chars);
  if (length < end_chars) Fail(absl::StrCat("AssertionError: expected length >= ", end_chars, ", got ", length));
  if (leeway < 0) Fail(absl::StrCat("AssertionError: expected leeway >= 0, got ", leeway));
  const auto size = Length(value);
  if (!size) Fail(absl::StrCat("TypeError: object of type '", TypeName(value), "' has no len()"));
  if (static_cast<int64_t>(*size) <= length + leeway) return value;
  if (!value.is_str()) Fail(absl::StrCat("TypeError: truncate expects a str, not ", TypeName(value)));
  const StrPtr& text = value.str();
  size_t cut = ByteOffset(text->bytes, static_cast<size_t>(length - end_chars));
  if (!params.Flag(1, false)) {
    const size_t space = text->view().substr(0, cut).rfind(' ');
    if (space != std::string_view::npos) cut = space;
  }
  StrBuilder out;
  out.Append(*text, 0, cut);
  out.Append(*end);
  return Value(out.Release(text->markup));
}

Value Center(Runtime&, const Value& value, const Args& args) {
  const Params params("center", args, {"width"});
  const StrPtr text = ToStr(value);
  const int64_t width = params.Integer(0, 80), missing = width - static_cast<int64_t>(text->chars);
  if (missing <= 0) return Value(text);
  const int64_t left = missing / 2 + (missing & width & 1);
  StrBuilder out;
  out.AppendChars(static_cast<size_t>(left), ' ');
  out.Append(*text);
  out.AppendChars(static_cast<size_t>(missing - left), ' ');
  return Value(out.Release(text->markup));
}

Value WordCount(Runtime&, const Value& value, const Args&) {
  const StrPtr text = ToStr(value);
  int64_t words = 0;
  bool inside = false;
  for (size_t at = 0; at < text->bytes.size();) {
    const bool word = IsWord(NextCharacter(text->bytes, at));
    words += word && !inside;
    inside = word;
  }
  return Value(words);
}

Value UrlEncode(Runtime&, const Value& value, const Args&) {
  if (value.is_dict() || value.is_seq()) Fail("TypeError: urlencode does not support pairs: encode their strings");
  const StrPtr text = ToStr(value);
  constexpr char kHex[] = "0123456789ABCDEF";
  std::string out;
  for (const char c : text->bytes) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0 ||
        std::string_view("_.-~/").find(c) != std::string_view::npos) {
      out += c;
    } else {
      out += {'%', kHex[static_cast<unsigned char>(c) >> 4], kHex[c & 15]};
    }
  }
  return Value(Derived(std::move(out), *text));
}

Value FormatFilter(Runtime& runtime, const Value& value, const Args& args) {
  if (!args.positional.empty() && !args.named.empty()) {
    Fail("FilterArgumentError: can't handle positional and keyword arguments at the same time");
  }
  if (args.named.empty()) return PercentFormat(runtime, ToStr(value), MakeTuple(args.positional));
  DictBuilder named;
  for (const auto& [name, item] : args.named) named.Set(Value::Text(name), item);
  return PercentFormat(runtime, ToStr(value), named.Release());
}

// Returns the string that int() and float() parse: without surrounding whitespace and without underscores between
// digits.
std::string NumberText(const Str& text) {
  const Range range = StripRange(text.bytes, true, true, nullptr);
  std::string out;
  for (size_t i = range.begin; i < range.end; ++i) {
    const char c = text.bytes[i];
    const bool between = i > range.begin && i + 1 < range.end &&
                         std::isalnum(static_cast<unsigned char>(text.bytes[i - 1])) != 0 &&
                         std::isalnum(static_cast<unsigned char>(text.bytes[i + 1])) != 0;
    if (c != '_' || !between) out += c;
  }
  return out;
}

std::optional<double> ParseFloat(const Str& text) {
  std::string number = Lower(NumberText(text));
  if (number.starts_with('+') && number.size() > 1 && number[1] != '-') number.erase(0, 1);
  const std::string_view digits = std::string_view(number).substr(number.starts_with('-') ? 1 : 0);
  if (digits.starts_with("nan(") || digits.empty()) return std::nullopt;
  double result = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), result);
  if (end != number.data() + number.size()) return std::nullopt;
  if (error == std::errc::result_out_of_range)
    result = std::strtod(number.c_str(), nullptr);
  else if (error != std::errc())
    return std::nullopt;
  return result;
}

std::optional<int64_t> ParseInteger(const Str& text, int64_t base) {
  std::string number = Lower(NumberText(text));
  bool negative = false;
  if (number.starts_with('+') || number.starts_with('-')) {
    negative = number[0] == '-';
    number.erase(0, 1);
  }
  const auto prefixed = [&](const char* prefix, int64_t of) {
    if ((base == of || base == 0) && number.starts_with(prefix)) {
      number.erase(0, 2);
      base = of;
    }
  };
  prefixed("0x", 16);
  prefixed("0o", 8);
  prefixed("0b", 2);
  if (base == 0) base = 10;
  if (base < 2 || base > 36 || number.empty() || number[0] == '-') return std::nullopt;
  int64_t result = 0;
  if (negative) number.insert(0, 1, '-');
  const auto [end, error] =
      std::from_chars(number.data(), number.data() + number.size(), result, static_cast<int>(base));
  if (error == std::errc::result_out_of_range) Fail("OverflowError: an integer beyond 64 bits is not supported");
  if (error != std::errc() || end != number.data() + number.size()) return std::nullopt;
  return result;
}

std::optional<int64_t> Truncated(double number) {
  if (!std::isfinite(number)) return std::nullopt;
  if (std::fabs(number) >= 9.2e18) Fail("OverflowError: an integer beyond 64 bits is not supported");
  return static_cast<int64_t>(number);
}

Value IntFilter(Runtime&, const Value& value, const Args& args) {
  const Params params("int", args, {"default", "base"});
  if (value.is_undefined()) FailUndefined(value);
  std::optional<int64_t> result;
  if (value.is_integral()) {
    result = value.integer();
  } else if (value.is_float()) {
    result = Truncated(value.number());
  } else if (value.is_str()) {
    result = ParseInteger(*value.str(), params.Integer(1, 10));
    if (!result) {
      if (const auto number = ParseFloat(*value.str())) result = Truncated(*number);
    }
  }
  return result ? Value(*result) : params.Or(0, Value(int64_t{0}));
}

Value FloatFilter(Runtime&, const Value& value, const Args& args) {
  const Params params("float", args, {"default"});
  if (value.is_undefined()) FailUndefined(value);
  if (value.is_number()) return Value(value.number());
  const auto number = value.is_str() ? ParseFloat(*value.str()) : std::nullopt;
  return number ? Value(*number) : params.Or(0, Value(0.0));
}

Value Abs(Runtime&, const Value& value, const Args&) {
  if (value.is_float()) return Value(std::fabs(value.number()));
  if (value.is_integral()) return value.integer() < 0 ? Negate(value) : Plus(value);
  if (value.is_undefined()) FailUndefined(value);
  Fail(absl::StrCat("TypeError: bad operand type for abs(): '", TypeName(value), "'"));
}

Value Round(Runtime&, const Value& value, const Args& args) {
  const Params params("round", args, {"precision", "method"});
  if (value.is_undefined()) FailUndefined(value);
  if (!value.is_number()) Fail(absl::StrCat("TypeError: type ", TypeName(value), " doesn't define __round__ method"));
  const int64_t precision = params.Integer(0, 0);
  const std::string method = params.Text(1, "common")->bytes;
  if (method != "common" && method != "ceil" && method != "floor") {
    Fail("FilterArgumentError: method must be common, ceil or floor");
  }
  const double number = value.number();
  if (std::abs(precision) > 300) FailLimit("round supports at most 300 digits");
  if (method != "common") {
    const double scale = std::pow(10.0, static_cast<double>(precision));
    return Value((method == "ceil" ? std::ceil(number * scale) : std::floor(number * scale)) / scale);
  }
  if (value.is_integral() && precision >= 0) return Plus(value);
  if (!std::isfinite(number)) return value;
  if (precision >= 0) {  // printf rounds the exact binary value, ties to even, as in Python
    char buffer[700];
    std::snprintf(buffer, sizeof(buffer), "%.*f", static_cast<int>(precision), number);
    return Value(std::strtod(buffer, nullptr));
  }
  const double scale = std::pow(10.0, static_cast<double>(-precision));
  const double rounded = std::nearbyint(number / scale) * scale;
  return value.is_integral() ? Value(static_cast<int64_t>(rounded)) : Value(rounded);
}

struct Entry {
  std::string_view name;
  Filter filter;
};
constexpr auto kFilters = std::to_array<Entry>({
    {"tojson", ToJsonFilter},
    {"trim", Trim},
    {"string", String},
    {"upper", Mapped<Upper>},
    {"lower", Mapped<Lower>},
    {"capitalize", Mapped<Capitalize>},
    {"title", Mapped<Title>},
    {"safe", Safe},
    {"escape", Escape},
    {"e", Escape},
    {"forceescape", ForceEscape},
    {"replace", Replace},
    {"indent", Indent},
    {"truncate", Truncate},
    {"center", Center},
    {"wordcount", WordCount},
    {"urlencode", UrlEncode},
    {"format", FormatFilter},
    {"int", IntFilter},
    {"float", FloatFilter},
    {"abs", Abs},
    {"round", Round},
});

}  // namespace

Filter FindTextFilter(std::string_view name) {
  for (const Entry& entry : kFilters) {
    if (entry.name == name) return entry.filter;
  }
  return nullptr;
}

}  // namespace ingot::text::jinja
