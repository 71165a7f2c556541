// Implements SchemaCompiler for scalars, types, and enumerations.
#include <algorithm>
#include <cmath>
#include <utility>

#include "base/utf8.h"
#include "grammar/chars.h"
#include "grammar/regex.h"
#include "grammar/schema_compiler.h"
#include "grammar/schema_formats.h"

namespace ingot::grammar {

namespace {

const json::value* At(const FlatSchema& schema, std::string_view key) {
  const auto it = schema.find(json::string_view(key.data(), key.size()));
  return it == schema.end() ? nullptr : &it->value();
}

bool HasAny(const FlatSchema& schema, std::initializer_list<std::string_view> keys) {
  return std::any_of(keys.begin(), keys.end(), [&](std::string_view key) { return At(schema, key) != nullptr; });
}

// Returns the number of zeros at the end of a whole step.
size_t ZerosOf(const Decimal& step) {
  return step.fraction.empty() ? step.whole.size() - 1 - step.whole.find_last_not_of('0') : 0;
}

// JSON numbers are read in 64 bits. Larger numbers are not exact.
bool HasHugeNumber(const json::value& value) {
  if (value.is_array()) return std::ranges::any_of(value.get_array(), HasHugeNumber);
  if (value.is_object()) {
    return std::ranges::any_of(value.get_object(), [](const auto& member) { return HasHugeNumber(member.value()); });
  }
  return value.is_double() && std::abs(value.get_double()) >= 0x1p63;
}

// Also accepts a double without a fraction, because JSON Schema counts 1.0 as an integer.
std::optional<int64_t> IntegerOf(const json::value& value) {
  if (!value.is_double() || value.get_double() != std::floor(value.get_double()) || HasHugeNumber(value)) return {};
  return static_cast<int64_t>(value.get_double());
}

absl::StatusOr<std::optional<Decimal>> BoundAt(const FlatSchema& schema, std::string_view key,
                                               const std::string& path) {
  const json::value* value = At(schema, key);
  if (value == nullptr) return std::optional<Decimal>();
  std::optional<Decimal> decimal = DecimalOf(*value);
  if (!decimal.has_value()) return SchemaFault(path, absl::StrCat(base::View(key), " must be a number"));
  return decimal;
}

std::string_view TypeName(const json::value& value) {
  switch (value.kind()) {
    case json::kind::null:
      return "null";
    case json::kind::bool_:
      return "boolean";
    case json::kind::int64:
    case json::kind::uint64:
      return "integer";
    case json::kind::double_:
      return IntegerOf(value).has_value() ? "integer" : "number";
    case json::kind::string:
      return "string";
    case json::kind::array:
      return "array";
    case json::kind::object:
      return "object";
  }
  return "";
}

bool InRange(const json::value& value, const NumberRange& range) {
  const std::optional<Decimal> decimal = DecimalOf(value);
  return decimal.has_value() && range.Holds(*decimal);
}

}  // namespace

absl::StatusOr<uint32_t> CountOf(const FlatSchema& schema, const char* key, uint32_t missing, const std::string& path) {
  const json::value* value = At(schema, key);
  if (value == nullptr) return missing;
  double number = -1;
  if (value->is_number()) number = value->to_number<double>();
  if (!(number >= 0 && number <= 1e9) || number != static_cast<uint32_t>(number)) {
    return SchemaFault(path, absl::StrCat(key, " must be a whole number from 0 to 10^9"));
  }
  return static_cast<uint32_t>(number);
}

absl::StatusOr<StringRules> StringRulesOf(const FlatSchema& schema, const std::string& path) {
  StringRules rules;
  INGOT_ASSIGN_OR_RETURN(rules.min, CountOf(schema, "minLength", 0, path));
  INGOT_ASSIGN_OR_RETURN(rules.max, CountOf(schema, "maxLength", kNoLimit, path));
  if (const json::value* pattern = At(schema, "pattern")) {
    if (!pattern->is_string()) return SchemaFault(path, "pattern must be a string");
    rules.patterns.emplace_back(pattern->get_string());
  }
  if (const json::value* format = At(schema, "format")) {
    const json::string& name = format->get_string();
    rules.patterns.emplace_back(FormatPattern({name.data(), name.size()}));
  }
  return rules;
}

std::string StringRules::Name() const {
  std::string name = absl::StrCat(min, " ", max);
  for (const std::string& pattern : patterns) absl::StrAppend(&name, " ", pattern.size(), " ", pattern);
  return name;
}

absl::StatusOr<Dfa> ContentDfa(const StringRules& rules, Budget& budget, Spelling spelling, const std::string& path) {
  std::optional<Dfa> content;
  const auto add = [&](Dfa dfa) -> absl::Status {
    if (content.has_value()) {
      INGOT_ASSIGN_OR_RETURN(dfa, Intersect(*content, dfa, budget));
    }
    content = std::move(dfa);
    return absl::OkStatus();
  };
  for (const std::string& pattern : rules.patterns) {
    absl::StatusOr<Dfa> dfa = PatternDfa(pattern, budget, spelling);
    if (!dfa.ok()) return SchemaFault(path, absl::StrCat("pattern ", dfa.status().message()));
    INGOT_RETURN_IF_ERROR(add(*std::move(dfa)));
  }
  if (!content.has_value() || rules.min > 0 || rules.max != kNoLimit) {
    INGOT_ASSIGN_OR_RETURN(Dfa length, LengthDfa(rules.min, rules.max, budget, spelling));
    INGOT_RETURN_IF_ERROR(add(std::move(length)));
  }
  return *std::move(content);
}

absl::StatusOr<NumberRange> NumberRangeOf(const FlatSchema& schema, bool integer, const std::string& path) {
  NumberRange range;
  range.integer = integer;
  INGOT_ASSIGN_OR_RETURN(range.low, BoundAt(schema, "minimum", path));
  INGOT_ASSIGN_OR_RETURN(range.high, BoundAt(schema, "maximum", path));
  INGOT_ASSIGN_OR_RETURN(const std::optional<Decimal> above, BoundAt(schema, "exclusiveMinimum", path));
  INGOT_ASSIGN_OR_RETURN(const std::optional<Decimal> below, BoundAt(schema, "exclusiveMaximum", path));
  if (above.has_value() && (!range.low.has_value() || Compare(*above, *range.low) >= 0)) {
    range.low = above;
    range.low_excluded = true;
  }
  if (below.has_value() && (!range.high.has_value() || Compare(*below, *range.high) <= 0)) {
    range.high = below;
    range.high_excluded = true;
  }
  INGOT_ASSIGN_OR_RETURN(range.multiple_of, BoundAt(schema, "multipleOf", path));
  if (range.multiple_of.has_value()) {
    const Decimal& step = *range.multiple_of;
    if (Compare(step, Decimal()) <= 0) return SchemaFault(path, "multipleOf must be above 0");
    const size_t zeros = ZerosOf(step);
    if (step.whole.size() + step.fraction.size() > kMaxStepDigits + zeros || zeros > kMaxStepZeros) {
      return SchemaFault(path, absl::StrCat("multipleOf may have at most ", kMaxStepDigits, " digits"));
    }
  }
  return range;
}

absl::StatusOr<std::vector<std::string>> TypesOf(const FlatSchema& schema, const std::string& path) {
  std::vector<std::string> types;
  const json::value* type = At(schema, "type");
  if (type == nullptr) {
    if (HasAny(schema, {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}))
      types.push_back("number");
    if (HasAny(schema, {"minLength", "maxLength", "pattern", "format"})) types.push_back("string");
    if (HasAny(schema, {"items", "prefixItems", "minItems", "maxItems"})) types.push_back("array");
    if (HasAny(schema, {"properties", "required", "additionalProperties"})) types.push_back("object");
    if (types.empty()) types = {"null", "boolean", "number", "string", "array", "object"};
    return types;
  }
  const json::array named = type->is_array() ? type->get_array() : json::array{*type};
  for (const json::value& one : named) {
    const auto same = [&](std::string_view t) {
      return one.is_string() && t == std::string_view(one.get_string().data(), one.get_string().size());
    };
    if (std::none_of(std::begin(kTypes), std::end(kTypes), same)) {
      return SchemaFault(path,
                         "type must be null, boolean, integer, number, string, array, object, or a list of those");
    }
  }
  for (const std::string_view t : kTypes) {
    if (std::find(named.begin(), named.end(), json::string_view(t.data(), t.size())) != named.end()) {
      types.emplace_back(t);
    }
  }
  if (std::find(types.begin(), types.end(), "number") != types.end()) std::erase(types, "integer");
  return types;
}

absl::StatusOr<std::vector<json::value>> AllowedValues(const FlatSchema& schema, const std::string& path,
                                                       Budget& budget) {
  INGOT_ASSIGN_OR_RETURN(const std::vector<std::string> types, TypesOf(schema, path));
  const bool typed = At(schema, "type") != nullptr;
  INGOT_ASSIGN_OR_RETURN(const StringRules strings, StringRulesOf(schema, path));
  INGOT_ASSIGN_OR_RETURN(const NumberRange range, NumberRangeOf(schema, false, path));
  const bool of_containers = HasAny(
      schema, {"items", "prefixItems", "minItems", "maxItems", "properties", "required", "additionalProperties"});
  std::optional<Dfa> content;
  if (!strings.patterns.empty()) {
    StringRules patterns;  // lengths are compared below
    patterns.patterns = strings.patterns;
    INGOT_ASSIGN_OR_RETURN(content, ContentDfa(patterns, budget, Spelling::kJson, path));
  }
  std::vector<json::value> out;
  for (const json::value& value : At(schema, "enum")->get_array()) {
    const std::string_view type = TypeName(value);
    const auto named = [&](std::string_view t) { return std::find(types.begin(), types.end(), t) != types.end(); };
    if (typed && !named(type) && !(type == "integer" && named("number"))) continue;
    if ((value.is_array() || value.is_object()) && of_containers) {
      return SchemaFault(path, "an enum of objects or arrays cannot be combined with keywords for objects or arrays");
    }
    if (HasHugeNumber(value))
      return SchemaFault(path, "a number of more than 64 bits in enum or const is not supported");
    if (value.is_number() && !InRange(value, range)) continue;
    if (const std::optional<int64_t> integer = IntegerOf(value); integer.has_value() && typed && !named("number")) {
      out.emplace_back(*integer);
      continue;
    }
    if (value.is_string()) {
      const std::string_view text(value.get_string().data(), value.get_string().size());
      const size_t length = base::CountCharacters(text);
      if (length < strings.min || length > strings.max) continue;
      const std::string quoted = QuoteText(text);
      if (content.has_value() && !content->Accepts(std::string_view(quoted).substr(1, quoted.size() - 2))) continue;
    }
    out.push_back(value);
  }
  return out;
}

int32_t AddValue(Nfa& nfa, int32_t from, const json::value& value, const Notation& notation) {
  const auto add_string = [&](json::string_view text) {
    const int32_t after = nfa.AddState();
    for (const Spelling spelling : notation.strings) {
      nfa.AddEpsilon(nfa.AddText(from, QuoteText({text.data(), text.size()}, spelling)), after);
    }
    return after;
  };
  if (value.is_string()) return add_string(value.get_string());
  if (value.is_null()) return nfa.AddText(from, notation.null);
  if (value.is_bool()) return nfa.AddText(from, value.get_bool() ? notation.yes : notation.no);
  if (!value.is_array() && !value.is_object()) return nfa.AddText(from, base::PrintJson(value));
  const bool is_object = value.is_object();
  const size_t size = is_object ? value.get_object().size() : value.get_array().size();
  from = AddWhitespace(nfa, nfa.AddText(from, is_object ? "{" : "["));
  for (size_t i = 0; i < size; ++i) {
    if (i > 0) from = AddWhitespace(nfa, nfa.AddText(from, ","));
    const json::value* item = nullptr;
    if (is_object) {
      const auto& entry = *(value.get_object().begin() + static_cast<ptrdiff_t>(i));
      from = AddWhitespace(nfa, nfa.AddText(add_string(entry.key()), ":"));
      item = &entry.value();
    } else {
      item = &value.get_array()[i];
    }
    from = AddValue(nfa, from, *item, notation);
  }
  if (size > 0) from = AddWhitespace(nfa, from);
  return nfa.AddText(from, is_object ? "}" : "]");
}

}  // namespace ingot::grammar
