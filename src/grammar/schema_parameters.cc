// Implements SchemaCompiler for objects whose properties are written one by one, between delimiters
// (grammar/parameters.h).
#include <algorithm>
#include <utility>

#include "grammar/chars.h"
#include "grammar/regex.h"
#include "grammar/schema_compiler.h"

namespace ingot::grammar {

namespace {

constexpr int kLongestName = 64;  // for parameters that are not in the schema

absl::Status CheckSyntax(const ParameterSyntax& syntax) {
  if (syntax.begin.empty() || syntax.text_key_end.empty() || syntax.json_key_end.empty() || syntax.stop.empty() ||
      syntax.value_end.find(syntax.stop) == std::string::npos) {
    return absl::InvalidArgumentError(
        "parameters need begin, text_key_end, json_key_end and stop, and value_end must contain stop");
  }
  return absl::OkStatus();
}

bool HasAtom(const Vocabulary& vocabulary, std::string_view text) {
  for (size_t at = 0; at < text.size(); ++at) {
    if (vocabulary.AtomAt(text.substr(at)) >= 0) return true;
  }
  return false;
}

// Accepts a string in `content` without `stop`, followed by `end`, whose last bytes are the first `stop`.
absl::StatusOr<Dfa> Ended(const Dfa& content, std::string_view end, std::string_view stop, Budget& budget) {
  Nfa nfa;
  const int32_t start = nfa.AddState();
  const int32_t accept = nfa.AddText(AddDfa(nfa, start, content), end);
  INGOT_ASSIGN_OR_RETURN(const Dfa all, Determinize(nfa, start, accept, budget));
  return Intersect(all, UntilDfa(stop), budget);
}

absl::StatusOr<Dfa> TextDfa(std::string_view text, Budget& budget) {
  Nfa nfa;
  const int32_t start = nfa.AddState();
  return Determinize(nfa, start, nfa.AddText(start, text), budget);
}

bool IsText(const json::value& value) { return value.is_string(); }

}  // namespace

// One parameter, and the states where its value begins.
struct SchemaCompiler::Parameter {
  int32_t text_begin, json_begin;  // after text_key_end and after json_key_end
  const json::value* schema;       // null = any string
  std::string path;
};

absl::Status SchemaCompiler::CompileParameters(int32_t from, int32_t to, const ParameterSyntax& syntax) {
  INGOT_RETURN_IF_ERROR(CheckSyntax(syntax));
  INGOT_ASSIGN_OR_RETURN(const std::vector<FlatSchema> alternatives, flattener_.Flatten(root_, "#"));
  for (const FlatSchema& flat : alternatives) {
    if (flat.contains("enum")) return SchemaFault("#", "an enum of objects cannot be written as parameters");
    INGOT_ASSIGN_OR_RETURN(const std::vector<std::string> types, TypesOf(flat, "#"));
    if (std::find(types.begin(), types.end(), "object") == types.end()) continue;
    INGOT_RETURN_IF_ERROR(EmitParameters(from, to, flat, syntax));
  }
  return BuildPending();
}

//   state 0 -- begin KEY key_end VALUE value_end --> state 1 --> ... state n (loop: others) --> to
absl::Status SchemaCompiler::EmitParameters(int32_t from, int32_t to, const FlatSchema& schema,
                                            const ParameterSyntax& syntax) {
  const json::value* stated = schema.if_contains("additionalProperties");
  const PendingRule object{-1, true, schema, "#"};  // owns the schemas that the properties point to
  INGOT_ASSIGN_OR_RETURN(const std::vector<Property> properties, PropertiesOf(object, stated));
  const bool named_only = stated != nullptr ? stated->is_bool() && !stated->get_bool() : schema.contains("properties");
  INGOT_ASSIGN_OR_RETURN(int32_t at, builder_.AddState());  // additional parameters loop to this state
  INGOT_RETURN_IF_ERROR(builder_.AddEdge(from, {Edge::kEpsilon, 0, at}));
  for (const Property& property : properties) {
    const std::string path = absl::StrCat("#/properties/", property.key);
    if (property.key.empty() || property.key.find(syntax.text_key_end[0]) != std::string::npos ||
        property.key.find('\n') != std::string::npos) {
      return SchemaFault(path, "this name cannot be written as a parameter");
    }
    INGOT_ASSIGN_OR_RETURN(const int32_t key, builder_.AddLiteral(at, syntax.begin + property.key));
    Parameter parameter{.text_begin = 0, .json_begin = 0, .schema = property.schema, .path = path};
    INGOT_ASSIGN_OR_RETURN(parameter.text_begin, builder_.AddLiteral(key, syntax.text_key_end));
    INGOT_ASSIGN_OR_RETURN(parameter.json_begin, builder_.AddLiteral(key, syntax.json_key_end));
    INGOT_ASSIGN_OR_RETURN(const int32_t next, builder_.AddState());
    INGOT_RETURN_IF_ERROR(EmitParameter(parameter, next, syntax));
    if (!property.required) INGOT_RETURN_IF_ERROR(builder_.AddEdge(at, {Edge::kEpsilon, 0, next}));
    at = next;
  }
  if (!named_only) {
    INGOT_ASSIGN_OR_RETURN(const int32_t begin, builder_.AddLiteral(at, syntax.begin));
    const std::string any_name = absl::StrCat("^[A-Za-z0-9_.-]{1,", kLongestName, "}$");
    INGOT_ASSIGN_OR_RETURN(const LeafPtr names, OtherNames(any_name, properties));
    INGOT_ASSIGN_OR_RETURN(const int32_t key, builder_.AddState());
    INGOT_RETURN_IF_ERROR(builder_.AddLeaf(begin, key, names));
    Parameter other{.text_begin = 0, .json_begin = 0, .schema = stated, .path = "#/additionalProperties"};
    INGOT_ASSIGN_OR_RETURN(other.text_begin, builder_.AddLiteral(key, syntax.text_key_end));
    INGOT_ASSIGN_OR_RETURN(other.json_begin, builder_.AddLiteral(key, syntax.json_key_end));
    INGOT_RETURN_IF_ERROR(EmitParameter(other, at, syntax));
  }
  return builder_.AddEdge(at, {Edge::kEpsilon, 0, to});
}

// Adds a value and its end.
absl::Status SchemaCompiler::EmitParameter(const Parameter& parameter, int32_t to, const ParameterSyntax& syntax) {
  static const json::value anything(true);
  const json::value& schema = parameter.schema == nullptr ? anything : *parameter.schema;
  INGOT_ASSIGN_OR_RETURN(const std::vector<FlatSchema> alternatives, flattener_.Flatten(schema, parameter.path));
  INGOT_ASSIGN_OR_RETURN(const int32_t after_json, builder_.AddState());
  bool any_json = false;
  for (const FlatSchema& flat : alternatives) {
    INGOT_RETURN_IF_ERROR(AsFarAsCanBe(flat, [&](const FlatSchema& form) {
      const absl::StatusOr<bool> json = EmitParameterAs(parameter, to, after_json, form, syntax);
      any_json = any_json || (json.ok() && *json);
      return json.status();
    }));
  }
  if (!any_json) return absl::OkStatus();
  INGOT_ASSIGN_OR_RETURN(const int32_t end, builder_.AddLiteral(after_json, syntax.value_end));
  return builder_.AddEdge(end, {Edge::kEpsilon, 0, to});
}

// Adds one alternative of the value's schema. Strings lead to `to`, other values to `after_json`. Returns whether there
// are other values.
absl::StatusOr<bool> SchemaCompiler::EmitParameterAs(const Parameter& parameter, int32_t to, int32_t after_json,
                                                     const FlatSchema& schema, const ParameterSyntax& syntax) {
  INGOT_ASSIGN_OR_RETURN(const bool any_text, EmitTexts(parameter, to, schema, syntax));
  if (any_text && syntax.text_key_end == syntax.json_key_end) return false;  // a JSON value is also a string
  FlatSchema others = schema;
  if (schema.contains("enum")) {
    INGOT_ASSIGN_OR_RETURN(std::vector<json::value> values, AllowedValues(schema, parameter.path, builder_.budget()));
    std::erase_if(values, IsText);
    if (values.empty()) return false;
    others["enum"] = json::array(values.begin(), values.end());
  } else {
    INGOT_ASSIGN_OR_RETURN(std::vector<std::string> types, TypesOf(schema, parameter.path));
    std::erase(types, "string");
    if (types.empty()) return false;
    json::array named;
    for (const std::string& type : types) named.emplace_back(json::string(type));
    others["type"] = std::move(named);
  }
  INGOT_RETURN_IF_ERROR(EmitFlat(parameter.json_begin, after_json, others, parameter.path));
  return true;
}

// Adds the values that are strings, as raw text. Returns whether any text is allowed.
absl::StatusOr<bool> SchemaCompiler::EmitTexts(const Parameter& parameter, int32_t to, const FlatSchema& schema,
                                               const ParameterSyntax& syntax) {
  Budget& budget = builder_.budget();
  if (schema.contains("enum")) {
    INGOT_ASSIGN_OR_RETURN(const std::vector<json::value> values, AllowedValues(schema, parameter.path, budget));
    for (const json::value& value : values) {
      if (!IsText(value)) continue;
      const std::string text(value.get_string().data(), value.get_string().size());
      INGOT_ASSIGN_OR_RETURN(const Dfa content, TextDfa(text, budget));
      INGOT_RETURN_IF_ERROR(EmitText(parameter.text_begin, to, "is " + text, content, syntax));
    }
    return false;
  }
  INGOT_ASSIGN_OR_RETURN(const std::vector<std::string> types, TypesOf(schema, parameter.path));
  if (std::find(types.begin(), types.end(), "string") == types.end()) return false;
  INGOT_ASSIGN_OR_RETURN(const StringRules rules, StringRulesOf(schema, parameter.path));
  INGOT_ASSIGN_OR_RETURN(const Dfa content, ContentDfa(rules, budget, Spelling::kRaw, parameter.path));
  INGOT_RETURN_IF_ERROR(EmitText(parameter.text_begin, to, "of " + rules.Name(), content, syntax));
  return rules.any();
}

// Adds a string and value_end. The string ends at the first `stop`, or at the atomic tokens in value_end, if it has any
// up to `stop`. No string spells an atomic token.
absl::Status SchemaCompiler::EmitText(int32_t from, int32_t to, const std::string& name, const Dfa& content,
                                      const ParameterSyntax& syntax) {
  Budget& budget = builder_.budget();
  const size_t after_stop = syntax.value_end.find(syntax.stop) + syntax.stop.size();
  const std::string_view value_end = syntax.value_end;
  const bool by_text = !HasAtom(builder_.vocabulary(), value_end.substr(0, after_stop));
  INGOT_ASSIGN_OR_RETURN(const int32_t after, builder_.AddState());
  const auto make = [&]() -> absl::StatusOr<Dfa> {
    if (by_text) return Ended(content, value_end.substr(0, after_stop), syntax.stop, budget);
    INGOT_ASSIGN_OR_RETURN(const Dfa some, LengthDfa(1, kNoLimit, budget, Spelling::kRaw));
    return Intersect(content, some, budget);
  };
  const std::string end = by_text ? absl::StrCat(syntax.stop.size(), " ", syntax.value_end) : "";
  INGOT_ASSIGN_OR_RETURN(const LeafPtr leaf,
                         builder_.pool().Get(absl::StrCat("value ", end.size(), " ", end, " ", name), make));
  INGOT_RETURN_IF_ERROR(builder_.AddLeaf(from, after, leaf));
  if (!by_text && content.Accepts("")) INGOT_RETURN_IF_ERROR(builder_.AddEdge(from, {Edge::kEpsilon, 0, after}));
  INGOT_ASSIGN_OR_RETURN(const int32_t last,
                         builder_.AddLiteral(after, by_text ? value_end.substr(after_stop) : value_end));
  return builder_.AddEdge(last, {Edge::kEpsilon, 0, to});
}

absl::StatusOr<SchemaCompiler::LeafPtr> SchemaCompiler::OtherNames(const std::string& pattern,
                                                                   const std::vector<Property>& known) {
  std::string name = absl::StrCat("name ", pattern, " but");
  for (const Property& property : known) absl::StrAppend(&name, " ", QuoteText(property.key));
  const auto make = [&]() -> absl::StatusOr<Dfa> {
    Budget& budget = builder_.budget();
    INGOT_ASSIGN_OR_RETURN(const Dfa any, PatternDfa(pattern, budget, Spelling::kRaw));
    Nfa nfa;
    const int32_t start = nfa.AddState(), end = nfa.AddState();
    for (const Property& property : known) nfa.AddEpsilon(nfa.AddText(start, property.key), end);
    INGOT_ASSIGN_OR_RETURN(const Dfa names, Determinize(nfa, start, end, budget));
    return Difference(any, names, budget);
  };
  return builder_.pool().Get(name, make);
}

}  // namespace ingot::grammar
